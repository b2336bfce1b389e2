"""Fine-tuning of a re-ranker on judged queries: groups of a positive and negatives, its losses, and selection."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from harp_jax.errors import InputError
from harp_jax.input.lanes import epoch_window
from harp_jax.input.layout import make_layout
from harp_jax.input.packing import Group, Sequence, fit
from harp_jax.input.ranking_groups import RankingData
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.pretrain import Finetune
from harp_jax.randomness import generator
from harp_jax.stages.pretrain import NoReader, Stage, encoder_and_tokenizer, starting_params
from harp_jax.text.marks import marks_of
from harp_jax.text.tokenizer import Tokenizer


def finetune(config: ConfigDict, with_data: bool = True) -> Stage:
    """Fine-tuning on judged queries, with negatives from a run's candidates."""
    bert, tokenizer, loaded = encoder_and_tokenizer(config)
    if config.init_head not in ("fresh", "pretrained"):
        raise InputError(f"init_head={config.init_head!r} is unknown; choose fresh or pretrained")
    predicting = config.mqp_weight > 0
    marks = marks_of(tokenizer, config.query_mark, config.document_mark)
    reader: Any = NoReader(("rank",))
    selection: Callable[[BertConfig, str], Any] | None = None
    if with_data:
        reader, selection = read_data(config, tokenizer)

    def objective(shape: BertConfig) -> Finetune:
        return Finetune(Ranker(shape), config.rank_loss, config.margin, config.mqp_weight, tokenizer.mask, marks.ids)

    shares = {"rank": 1.0}
    pairs = 1 + config.negatives
    size = pairs + predicting
    sequences = round(config.batch_pairs * size / pairs)
    window = epoch_window(config.window, reader.sizes["rank"], config.lanes) if with_data else config.window
    layout = make_layout(config, tokenizer, reader, shares, group_size=size, sequences=sequences, window=window)
    # Batches hold about as many sequences as are asked for: a group needs rows of its own, and may have fewer negatives.
    steps = config.steps or math.ceil(config.epochs * reader.sizes["rank"] / (layout.step_groups or sequences / size))
    drop = ("pooler", "score") if config.init_head == "fresh" else ()
    start = starting_params(loaded, drop, tokenizer.size)
    return Stage(tokenizer, bert, ("rank",), objective, reader, None, layout, shares, steps, start, selection, window)


def read_data(config: ConfigDict, tokenizer: Tokenizer) -> tuple["RankingReader", Callable | None]:
    """The groups to train on, and what selects the parameters (None where nothing does)."""
    if not config.select:
        return RankingReader(config, RankingData.from_config(config, tokenizer)), None
    from harp_jax.checkpoints.huggingface import save_hf
    from harp_jax.ranking.reranker import PARTS, Reranker
    from harp_jax.ranking.selection import Selection, held_out

    train, kept_back = held_out(config)
    data = RankingData.from_config(config, tokenizer, train)
    marks = marks_of(tokenizer, config.query_mark, config.document_mark)

    def selection(shape: BertConfig, workdir: str) -> Selection:
        def reranker(params: Any) -> Reranker:
            return Reranker(shape, params, tokenizer, config.row_length, marks=marks)

        def save(directory: str, params: Any) -> None:
            save_hf(directory, shape, {name: params[name] for name in PARTS}, tokenizer, "", marks)

        return Selection(config, kept_back, workdir, reranker, save)

    return RankingReader(config, data), selection


class RankingReader:
    """Groups of a positive and its negatives, as `lanes.Reader` asks for them.

    With masked query prediction the second of a group is the positive again, its query open to masking.
    """

    def __init__(self, config: ConfigDict, data: RankingData) -> None:
        self.data = data
        self.lanes, self.length, self.seed = config.lanes, config.row_length, config.seed
        self.predicting = config.get("mqp_weight", 0.0) > 0
        self.sizes: Mapping[str, int] = {"rank": len(self.data)}
        self._orders: dict[int, np.ndarray] = {}

    def cut(self, query: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two as they enter a sequence."""
        return fit(query, document, self.length)

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            # Lanes are an epoch apart at most.
            self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1}
            self._orders[epoch] = generator(self.seed, "units", epoch).permutation(len(self.data))
        return self._orders[epoch]

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        size, step = len(self.data), self.lanes if len(self.data) >= self.lanes else 1
        groups = []
        for position in range(start, start + count):
            # Lane ℓ takes every step-th unit of one endless sequence of permuted epochs.
            epoch, at = divmod(position * step + lane % step, size)
            pairs = [self.cut(q, d) for q, d in self.data.unit(epoch, int(self._order(epoch)[at]))]
            sequences = [Sequence(query, document, -1, -1) for query, document in pairs]
            if self.predicting:
                sequences.insert(1, Sequence(*pairs[0], 0, -1))
            groups.append(Group(0, tuple(sequences)))
        return groups
