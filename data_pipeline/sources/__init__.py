"""Read hyperlinked text: every input format becomes linked documents, chunk by chunk.

In: the config's `source`: a format, files, redirects.
Out: `LinkedDocument`s (text, links with offsets in code points), redirects, and what was dropped and why.
Imports: ground files of harp_jax.
Files:
  document       LinkedDocument, Link, Chunk, and the record of what was dropped
  marked         text with marks for links to plain text with offsets: the last step of every reader of markup
  json_lines     files of one JSON object per line: chunks and records
  linked_jsonl   the neutral format: id, title, text, links
  harp_json      the format of HARP's authors: one sentence per line
  wikiextractor  WikiExtractor's JSON with links
  mediawiki/     XML dumps of MediaWiki
  web/           HTML folders and WARC files
  detect         the format of a file or folder, told by its content
  formats        the table of formats, and reading a source in any of them
"""
