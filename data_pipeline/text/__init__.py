"""Text in pieces: sentences, words, wordpieces.

In: plain text of a page.
Out: sentence spans in code points; words as tuples of wordpiece ids, and which of them are terms.
Imports: harp_jax.text.
Files:
  sentences   sentence boundaries, by sentencex or rules for English
  vocabulary  training of a WordPiece vocabulary
  terms       words and their wordpieces, stopwords, lengths in words, normalised anchor texts
"""
