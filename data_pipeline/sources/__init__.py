"""Read hyperlinked text: every input format becomes linked documents, chunk by chunk.

In: the config's `source`: a format, files, redirects.
Out: `LinkedDocument`s (text, links with offsets in code points), redirects, and what was dropped and why.
Imports: base.
Files:
  document      LinkedDocument, Link, Chunk, and the record of what was dropped
  marked        text with marks for links to plain text with offsets: the last step of every reader of markup
  json_formats  JSON lines: linked JSONL (the neutral format), WikiExtractor's, that of HARP's authors
  mediawiki/    XML dumps of MediaWiki
  web/          HTML folders and WARC files
  formats       the table of formats, reading a source in any of them, the format of a file or folder by its content
"""
