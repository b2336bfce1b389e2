"""Read MediaWiki XML dumps: pages, redirects and wikitext.

In: dump files, optionally with their multistream index.
Out: chunks of whole pages; linked documents of the main namespace.
Imports: sources.document, sources.marked.
Files:
  titles    link targets to page titles: namespaces, interwiki prefixes, case
  wikitext  wikitext to plain text with link offsets
  dump      a dump as a stream or by its index: chunks of whole pages, and a `<page>` element to a document
"""
