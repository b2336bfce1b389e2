"""A small artificial wiki with questions, for demos and tests.

In: a seed.
Out: a MediaWiki dump, documents, queries, judgments, folds.
Imports: sources (wikitext to text).
Files:
  words  facts and the sentences that state them
  wiki   pages, links and questions made from these words
"""
