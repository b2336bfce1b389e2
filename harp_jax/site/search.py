"""Search in the folder that `harp site` writes: the weighted sum of BM25, BM25F, in-links, vectors and a ranker.

Each first stage contributes its best candidates, and every part scores all of them. A document's score is the weighted sum of
its parts, each scaled to 0…1 per query. `search.json` lists the parts (`Settings`); everything else has fixed names in the folder.

Nothing is found if no document or anchor text has a word of the query, and no vector is nearer to it than to random letters
(`PassageVectors.noise`). Some document is always the nearest one: without this floor, a query without meaning would have results.
With all-MiniLM-L6-v2 the floor is about .35; "zzxqv wobblefrump" has .25, "postgress" .64 in PostgreSQL's manual.
"""

import json
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np

from harp_jax.base.errors import InputError, at_least, named
from harp_jax.base.files import read_json_as, replacing, within
from harp_jax.base.progress import progress
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.text_files import checked_texts
from harp_jax.ranking.first_stage import indexed, read_anchors
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, RRF_K, VECTORS, normalised
from harp_jax.ranking.lexical import checked, make, top
from harp_jax.ranking.rerank import load_scorer
from harp_jax.ranking.runtimes import chosen_backend
from harp_jax.ranking.scorers import BiEncoderScorer, CrossEncoderScorer, Scorer, Windows, best_windows
from harp_jax.ranking.vectors import PassageVectors
from harp_jax.site.options import FIELDS
from harp_jax.text.languages import ENGLISH
from harp_jax.text.tokenizer import CHARACTERS_PER_TOKEN

NAME = "search.json"
DOCS, ANCHOR_TEXTS = os.path.join("pages", "docs.jsonl"), os.path.join("pages", "anchors.tsv")
VECTORS_FOLDER, ENCODER = "vectors", "encoder"
LEXICAL = {BM25: "bm25", ANCHORS: "bm25f"}  # part → model
RANKER, LABELLED = "ranker", "ranker, fine-tuned on labels"  # parts
FOLDERS = {RANKER: "ranker", LABELLED: "ranker_labelled"}


@dataclass(frozen=True)
class Settings:
    """How a site is searched. `weights`: part → weight in the sum; `models`: part → folder of its ranker. `parameters`: of bm25 and
    bm25f; `depth`: candidates per first stage; `encoder`: name of the encoder in the folder "encoder", "" for none. The encoder and
    a ranker read at most `windows` windows of a document; a ranker's have `max_length` tokens. `tuned`: by what `harp tune` has
    chosen the weights, or ""."""

    parameters: dict[str, dict[str, float]]
    weights: dict[str, float]
    language: str = ENGLISH
    encoder: str = ""
    models: dict[str, str] = field(default_factory=dict)
    depth: int = 20
    windows: int = 1
    max_length: int | None = None
    tuned: str = ""

    @property
    def everything(self) -> tuple[str, ...]:
        """All parts, including those without a weight."""
        return (BM25, ANCHORS, INLINKS, *([VECTORS] if self.encoder else []), *self.models)

    def save(self, folder: str) -> None:
        """Raises InputError as `check`, so that no later `load` does."""
        self.check(folder)
        with replacing(os.path.join(folder, NAME)) as file:
            json.dump(asdict(self), file, indent=1)

    @classmethod
    def load(cls, folder: str) -> "Settings":
        """Raises InputError for a folder in which `harp site` did not finish, and as `check`."""
        path = os.path.join(folder, NAME)
        if not os.path.exists(path):
            raise InputError(f"{folder} has no {NAME}; let `harp site` finish, or name another folder")
        settings = read_json_as(cls, path, "let `harp site` write it again")
        settings.check(folder)
        return settings

    def check(self, folder: str) -> None:
        """Raises InputError for values that no search can use, and for models outside of the folder."""
        path, weights, wrong = os.path.join(folder, NAME), self.weights.values(), ""
        if absent := {*LEXICAL.values()} - self.parameters.keys():
            wrong = f"no parameters of {min(absent)}"
        elif unknown := self.weights.keys() - set(self.everything):
            wrong = f"the weight of {min(unknown)!r}, which is not among its parts"
        elif not any(weights) or min(weights) < 0:
            wrong = "weights are 0 or more, and not all 0"
        elif min(self.depth, self.windows) < 1:
            wrong = "depth or windows is below 1"
        try:
            for model, parameters in self.parameters.items():
                checked(model, parameters)
        except InputError as error:
            wrong = str(error)
        if wrong:
            raise InputError(f"{path}: {wrong}; let `harp site --force` write it again")
        for name in self.models.values():
            within(folder, name, path)


def documents(folder: str) -> Documents:
    return Documents.open(os.path.join(folder, DOCS), FIELDS)


class Scores(NamedTuple):
    """The candidates of a query, and the scores of each part [candidates] float64. `windows`: for vectors and each ranker, the
    index [candidates] int64 of its best window."""

    docids: list[str]
    parts: dict[str, np.ndarray]
    windows: dict[str, np.ndarray]

    def total(self, weights: Mapping[str, float]) -> np.ndarray:
        """Σ weight · score, each part scaled to 0…1."""
        total = np.zeros(len(self.docids))
        for part, weight in weights.items() if self.docids else ():
            total += weight * normalised(self.parts[part], "minmax")
        return total


class CombinedSearch:
    """Loads a folder of `harp site`. `only`: the parts to load (default: those with a weight); `settings` instead of the folder's.
    BM25 and BM25F are always loaded, because they supply candidates, as in the verdict's test."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        only: Sequence[str] = (),
        backend: str = "jax",
        settings: Settings | None = None,
    ) -> None:
        folder = named(folder)
        self.settings = s = settings or Settings.load(folder)
        if unknown := {*only} - {*s.everything}:
            raise InputError(f"only: {min(unknown)!r} is not among the parts {', '.join(s.everything)}")
        chosen_backend(backend, "float32", folder)
        self.names = [part for part in s.everything if part in (only or s.weights) or part in (BM25, ANCHORS)]
        self.docs, self.anchors = documents(folder), read_anchors(os.path.join(folder, ANCHOR_TEXTS))
        hashes = array("Q")  # of the documents' texts
        self.collection = indexed(self._texts(hashes), "bm25f", s.language, self.anchors)  # BM25 reads only its texts
        self.ids = self.collection.docids
        self.lexical = {part: make(model, self.collection, s.parameters[model]) for part, model in LEXICAL.items()}
        self.vectors: PassageVectors | None = None
        self.models: dict[str, tuple[Scorer, Windows | None]] = {}  # vectors, then rankers
        if VECTORS in self.names:
            vectors, encoder = (os.path.join(folder, name) for name in (VECTORS_FOLDER, ENCODER))
            self.vectors = PassageVectors(vectors, encoder, s.windows, hashes)
            self.models[VECTORS] = self.vectors.encoder, self.vectors.windows
        for part, model in s.models.items():
            if part in self.names:
                ranker = load_scorer(os.path.join(folder, model), max_length=s.max_length, backend=backend)
                self.models[part] = ranker, Windows(s.windows)

    def _texts(self, hashes: "array[int]") -> Iterator[tuple[str, str]]:
        """The documents' (docid, text); appends their hashes, by which their vectors are found: each file is read once."""
        for docid, text in progress(self.docs.texts(), total=len(self.docs), unit="documents", desc="index"):
            hashes.append(hash64(text))
            yield docid, text

    def search(self, query: str, k: int | None = 10) -> list[tuple[str, float]]:
        """(docid, score) of the best `k` documents by the recommended sum, best first, as `harp search` ranks them. None: of all
        candidates."""
        at_least(1, k=k)
        (query,) = checked_texts("query", [query])
        scores = self.scores(query)
        total = scores.total({part: weight for part, weight in self.settings.weights.items() if part in self.names})
        return [(scores.docids[i], float(total[i])) for i in np.argsort(-total, kind="stable")[:k].tolist()]

    def scores(self, query: str, barred: Set[str] = frozenset()) -> Scores:
        """The candidates of a query, without `barred` documents, in order of reciprocal rank fusion."""
        words, depth = self.collection.words(query), self.settings.depth
        lexical = {part: model.scores(words)[0] for part, model in self.lexical.items()}
        stages = [np.where(scores > 0, scores, -np.inf) for scores in lexical.values()]
        if self.vectors:
            cosines, nearest = self.vectors.cosines(query)
            # Without a word of the collection and a vector nearer than random letters, nothing is found.
            stages = [*stages, cosines] if words or cosines.max() > self.vectors.noise else []
        # The best candidates of each first stage.
        fused: dict[int, float] = {}
        for scores in stages:
            best = [n for n in top(scores, depth + len(barred)).tolist() if self.ids[n] not in barred][:depth]
            for rank, n in enumerate(best, 1):
                fused[n] = fused.get(n, 0.0) + 1 / (RRF_K + rank)
        numbers = sorted(fused, key=lambda n: -fused[n])
        docids = [self.ids[n] for n in numbers]
        if not docids:
            return Scores([], {part: np.zeros(0) for part in self.names}, {})
        # The scores of all parts.
        parts: dict[str, np.ndarray] = {}
        windows: dict[str, np.ndarray] = {}
        for part in self.names:
            if part in self.lexical:
                parts[part] = lexical[part][numbers]
            elif part == INLINKS:
                parts[part] = np.log1p([sum(self.anchors.get(docid, {}).values()) for docid in docids])
            elif part == VECTORS:
                parts[part], windows[part] = cosines[numbers].astype(np.float64), nearest[numbers]
            else:
                scorer, read = self.models[part]
                (asked,) = scorer.encode_queries([query])
                limit = read.reach(scorer.max_length) if read else None
                texts = scorer.encode_documents([self.docs[docid] for docid in docids], limit)
                values, windows[part] = best_windows(scorer, [(asked, text) for text in texts], read)
                parts[part] = values.astype(np.float64)
        return Scores(docids, parts, windows)

    def passage(self, part: str, query: str, docid: str, window: int) -> str:
        """The text of a window in `Scores`, as the model reads it with this query; empty if it reads the whole document."""
        scorer, windows = self.models[part]
        assert isinstance(scorer, CrossEncoderScorer | BiEncoderScorer)
        text, windows, skip = self.docs[docid], windows or Windows(1), 0
        room, reach = scorer.room(scorer.encode_queries([query])[0]), windows.reach(scorer.max_length)
        if isinstance(scorer, BiEncoderScorer):  # a prompt precedes the text
            text, skip, reach = scorer.prompt_texts[1] + text, len(scorer.prompts[1]), windows.reach(room)
        # As `Tokenizer.encode_prefixes`: of a long text only the beginning is tokenized, unless it has too few tokens. What follows
        # the window does not matter, but that something does.
        limit = skip + min(reach, windows.start(window, reach, room) + room + 1)
        most = CHARACTERS_PER_TOKEN * limit
        beginning = text[: text.rfind(" ", 0, most) + 1].rstrip() if len(text) > most else text
        (encoding,) = scorer.tokenizer.encode_batch([beginning or text])
        if len(encoding) < limit and len(beginning) < len(text):
            (encoding,) = scorer.tokenizer.encode_batch([text])
        offsets = encoding.offsets[skip:limit]
        if len(offsets) <= room:
            return ""
        start = windows.start(window, len(offsets), room)
        return text[offsets[start][0] : offsets[start + room - 1][1]]
