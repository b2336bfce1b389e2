"""The search of a site as a server (`harp serve`), and a local page that compares its parts and stores labels (`harp look`).

In: a folder of `harp site`; for the page also documents and a trained ranker.
Out: JSON: results of queries, and scores of texts in the format of Cohere, Jina and vLLM; labels as lines of query, docid, level.
Imports: base, corpus, ranking, site, text.
Files: `session` (loads everything; results, passages and snippets), `server` (routes, limits, workers); static/ has the page.
"""
