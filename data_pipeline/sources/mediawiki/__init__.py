"""Read MediaWiki XML dumps: pages, redirects and wikitext.

In: dump files, optionally with their multistream index.
Out: chunks of whole pages; linked documents of the main namespace.
Imports: sources.document, sources.marked.
Files:
  titles       link targets to page titles: namespaces, interwiki prefixes, case
  wikitext     wikitext to plain text with link offsets
  pages_xml    the bytes of an export: its head, and whole `<page>` elements
  article      one `<page>` element to a linked document
  multistream  dumps with an index, decompressed in the workers
  dump         chunks and documents of a dump
"""
