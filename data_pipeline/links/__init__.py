"""The link graph: from documents to links that lead to pages, with anchor texts counted.

In: chunks of the sources.
Out: tables `documents`, `pages`, `aliases`, `ranked` (links with their sentence and destination), `candidates`.
Imports: engine, text, sources.
Files:
  web_sites   the first stage of every job: sources to documents; web sites: links that recur on most pages, sections, hosts
  link_graph  the maps and joins from documents to resolved links; the graph and what was dropped, in numbers
"""
