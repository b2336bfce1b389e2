"""A local page: type a query and see BM25, the re-ranker and their sum next to each other; label results; POST /v1/rerank.

In: documents, a trained ranker, anchor texts and queries to propose, or the output of `harp site`.
Out: pages on the loopback interface; labels as query<TAB>docid<TAB>level lines; scores in the shape of Cohere, Jina and vLLM.
Imports: ground files, corpus, ranking, text.
Files: `shelf` (documents, index and ranker, loaded; rankings and snippets), `label_file` (labels on disk), `server` (the routes, on
the loopback interface); static/ has the page.
"""
