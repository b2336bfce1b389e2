"""The `Reranker` of the library: one that ranks, and can be pre-trained from links and fine-tuned on labels."""

import json
import os
import tempfile
from typing import Any, Self

from harp_jax.api import load_config
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.checkpoints.export import export
from harp_jax.corpus.trec import write_run
from harp_jax.experiments.site.collection import Site
from harp_jax.plain_data import DocumentsData, QrelsData, QueriesData, to_documents, to_qrels, to_queries
from harp_jax.ranking.lexical.first_stage import indexed, retrieve
from harp_jax.ranking.reranker import Reranker as Ranker

CANDIDATES = 50  # of BM25, from which negatives are drawn


class Reranker(Ranker):
    __doc__ = (Ranker.__doc__ or "") + (
        "\n    `pretrain` makes one from the links of a site, `fit` fine-tunes it on judged queries.\n    "
    )

    @classmethod
    def pretrain(cls, site: Site, output: str, start: str = "", minutes: float = 30.0, **options: Any) -> Self:
        """A ranker trained from the links of a site for `minutes`, from the Hugging Face BERT `start` or from scratch.

        The same as `harp site`: `output` receives its results, with verdict.json among them, and a repeated call resumes.
        `options` are those of the plan (`harp plan site --help`). Raises InputError where links are too few.
        """
        from harp_jax.experiments.site.run import SiteRun

        if not isinstance(site, Site):
            raise InputError(f"site: {type(site).__name__} given; use hj.Site.from_pages(…) or Site.from_html(…)")

        SiteRun({**site.options, "start": start, **options}, output, minutes).run()
        return cls.from_pretrained(os.path.join(output, "ranker"))

    def fit(self, queries: QueriesData, qrels: QrelsData, docs: DocumentsData, output: str, **changes: Any) -> Self:
        """This ranker fine-tuned on judged queries, written to the directory `output` as an export.

        Negatives are drawn from BM25's best 50 documents. `changes` are fields of configs/finetune_site.py, such as
        `epochs=3.0`. Raises InputError where no relevant document has a text, and for a ranker that was not loaded from a
        directory.
        """
        from harp_jax.training.train import train

        if not self.directory:
            raise InputError("this ranker was not loaded from a directory; use Reranker.from_pretrained")
        texts, judged, documents = to_queries(queries), to_qrels(qrels), to_documents(docs)
        collection = indexed(documents.texts(), "bm25", "english")
        with tempfile.TemporaryDirectory(prefix="harp-fit-") as place:
            paths = {name: os.path.join(place, name) for name in ("docs.jsonl", "queries.tsv", "qrels.txt", "run.trec")}
            with replacing(paths["docs.jsonl"]) as file:
                file.writelines(json.dumps({"id": docid, "text": text}) + "\n" for docid, text in documents.texts())
            with replacing(paths["queries.tsv"]) as file:
                file.writelines(f"{qid}\t{' '.join(text.split())}\n" for qid, text in texts.items())
            with replacing(paths["qrels.txt"]) as file:
                file.writelines(f"{qid} 0 {docid} {n}\n" for qid, found in judged.items() for docid, n in found.items())
            rankings = retrieve("bm25", collection, [({}, texts)], CANDIDATES)
            write_run(paths["run.trec"], (found for found in rankings if found[1]))
            given = {
                "init": self.directory, "docs": paths["docs.jsonl"], "queries": paths["queries.tsv"],
                "qrels": paths["qrels.txt"], "candidates": paths["run.trec"],
            }  # fmt: skip
            config = load_config("finetune_site", **(given | changes))
            workdir = os.path.join(place, "training")
            train(config, workdir)
            export(workdir, output)
        return type(self).from_pretrained(output)
