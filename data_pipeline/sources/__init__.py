"""Read hyperlinked text: every input format becomes linked documents, chunk by chunk.

In: the config's `source`: a format, files, redirects.
Out: `LinkedDocument`s (text, links with offsets in code points), redirects, and what was dropped and why.
Imports: base.
Files:
  document           LinkedDocument, Link, Chunk, what was dropped; text with marks for links to plain text with offsets
  json_formats       JSON lines: linked JSONL (the neutral format), WikiExtractor's, that of HARP's authors
  wikitext           link targets to titles (namespaces, interwiki prefixes, case); wikitext to plain text with link offsets
  mediawiki          a dump, plain or multistream, to whole pages, and a `<page>` element to a document
  urls               URLs in one normal form, the addresses of pages
  content_selection  which part of a page is its main content
  main_content       the main content of an HTML tree as text with marks, by section
  html_pages         a page as bytes to a linked document; folders and files of HTML
  warc               WARC files
  formats            the table of formats, the chunks and documents of a source in any of them, detecting format and language
"""
