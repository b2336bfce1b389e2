"""An invented wiki with questions, for demos and tests.

In: a number of pages and a seed.
Out: a MediaWiki dump, documents, queries, judgments and folds; the same bytes for the same seed.
Imports: sources.
Files:
  grammar  its vocabulary: facts in three wordings
  wiki     the pages, the dump and the questions
"""
