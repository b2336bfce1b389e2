"""A local web page that compares BM25, the re-ranker and their sum for a query, and stores labels; also POST /v1/rerank.

In: documents, a trained ranker, anchor texts and suggested queries, or the output of `harp site`.
Out: pages on the loopback interface; labels as query<TAB>docid<TAB>level lines; scores in the JSON format of Cohere, Jina and vLLM.
Imports: base, corpus, ranking, site, text.
Files: `shelf` (loads documents, index and ranker; rankings and snippets), `server` (the routes);
static/ has the page.
"""
