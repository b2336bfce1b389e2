"""A local page: type a query and see BM25, the re-ranker and their sum next to each other; label results; POST /rerank.

In: documents, a trained ranker, anchor texts and queries to propose, or the output of `harp site`.
Out: pages on the loopback interface; labels as query<TAB>docid<TAB>level lines; scores in Text Embeddings Inference's shape.
Imports: ground files, corpus, ranking, text.
Files: `sources` (where everything is), `shelf` (documents, index and ranker, loaded), `snippets` (the part of a document that
answers), `label_file` (labels on disk), `bodies` (of requests, and their errors), `rerank` (POST /rerank), `app` (the routes),
`server` (on the loopback interface); static/ has the page.
"""
