"""Split text into sentences, words and tokens.

In: plain text of a page.
Out: sentence spans in code points; words and their token ids, and which of them are terms.
Imports: harp_jax.text.
Files:
  sentences  sentence boundaries, by sentencex or rules for English
  terms      words and their tokens, stopwords, lengths in words, normalised anchor texts
"""
