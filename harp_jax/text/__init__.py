"""Text to ids: subword tokens for cross-encoders, whole words for neural rankers.

In: strings, and vocabularies on disk.
Out: token ids, vocabularies, word vectors [size, dimension] float32.
Imports: ground files, corpus.
Files: `tokenizer` (tokenizer.json), `wordpiece` (BERT's tokenizer from a vocabulary), `marks` (tokens before queries and
documents, [Q] and [D]), `words` (Snowball stemmers, a vocabulary of whole words), `word_vectors` (trains and reads word2vec).
"""
