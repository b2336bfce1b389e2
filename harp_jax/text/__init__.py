"""Text to ids: tokens for the cross-encoders, whole words for the neural rankers.

In: strings, and vocabularies on disk.
Out: token ids, vocabularies, word vectors [size, dimension] float32.
Imports: ground files, corpus.
Files: `tokenizer` (tokenizer.json), `wordpiece` (BERT's, from a vocabulary alone), `marks` (tokens before queries and
documents, [Q] and [D]), `words` (Snowball stemmers, a vocabulary of whole words), `word_vectors` (word2vec: trained, and read from
text files).
"""
