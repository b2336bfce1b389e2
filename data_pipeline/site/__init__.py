"""What a site's own links can test: anchors of held-out pages as queries, their destinations as relevant documents.

In: the `source` of a generation config, and its share of held-out source pages.
Out: a folder with documents, anchor texts of the other pages, queries, judgments, and what was found and dropped.
Imports: engine, text, sources, graph, pairs (the split of source pages).
Files:
  held_out  which anchors of held-out pages are queries
  survey    from pages to the folder, with its report
"""
