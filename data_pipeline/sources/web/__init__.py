"""Read web pages: folders of HTML and WARC crawls.

In: HTML files or WARC records with their URLs.
Out: linked documents of the pages' main content; redirects.
Imports: sources.document, sources.marked.
Files:
  urls                  URLs in one normal form, the addresses of pages
  page_elements         the elements of a page with their amounts of text
  boilerplate_elements  elements that are boilerplate by tag, role or name
  content_selection     which part of a page is its main content
  main_content          the main content of an HTML tree as text with marks
  index_pages           lists of links: indices, site maps, search pages
  html_page             one page as bytes to a linked document
  sections              pages as documents, whole or split into sections
  html_files            folders and files of HTML
  warc                  WARC files
"""
