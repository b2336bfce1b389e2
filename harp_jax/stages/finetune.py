"""Fine-tuning of a re-ranker on judged queries: groups of a positive and negatives, its losses, and selection."""

import math
from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from harp_jax.checkpoints.encoder import encoder_and_tokenizer, starting_params
from harp_jax.errors import InputError
from harp_jax.input.lanes import epoch_window
from harp_jax.input.layout import make_layout
from harp_jax.input.ranking_groups import RankingData, RankingReader
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.pretrain import Finetune
from harp_jax.stages.base import NoReader, Stage
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
