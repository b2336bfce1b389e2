"""Collections, queries, judgments, runs and click logs as files: the formats of TREC, MS MARCO, BEIR, ORCAS and ir_datasets.

In: paths of files and folders, or ids of ir_datasets ("irds:ID").
Out: texts by document id with random access, queries (qid → text), judgments (`Qrels`), runs (`Run`), folds, clicked pairs; runs
written as TREC files.
Imports: ground files.
Files: `jsonl` (one checked record), `paths` (which files a folder, or pages of HTML, WARC and dumps, stand for),
`irds` (ir_datasets), `documents` (random access through an SQLite index), `trec` (runs, judgments, queries), `folds` (subsets of
queries), `labels` (query, document, level), `clicks` (a click log as pairs).
"""
