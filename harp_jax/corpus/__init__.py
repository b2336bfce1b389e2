"""Reads collections, queries, judgments, runs and click logs in the formats of TREC, MS MARCO, BEIR, ORCAS and ir_datasets.

In: paths of files and folders, or ids of ir_datasets ("irds:ID").
Out: texts by document id with random access, queries (qid → text), judgments (`Qrels`), runs (`Run`, also written as TREC
files), folds, clicked pairs.
Imports: base.
Files: `text_files` (checked lines, ids and texts), `paths` (finds a collection's files; ir_datasets), `documents` (random
access through an SQLite index), `sgml` (TREC's documents and topics), `trec` (runs, judgments, queries and their subsets), `labels`
(query, document, level), `query_sets` (judged queries, folds, few-shot subsets), `clicks` (a click log as pairs).
"""
