"""Read web pages: folders of HTML and WARC crawls.

In: HTML files or WARC records with their URLs.
Out: linked documents of the pages' main content; redirects.
Imports: sources.document, sources.marked.
Files:
  urls               URLs in one normal form, the addresses of pages
  content_selection  which part of a page is its main content
  main_content       the main content of an HTML tree as text with marks, by section
  html_pages         a page as bytes to a linked document; folders and files of HTML
  warc               WARC files
"""
