"""Text to ids: subword tokens for cross-encoders, whole words for neural rankers.

In: strings, and vocabularies on disk.
Out: token ids, vocabularies, word vectors [size, dimension] float32.
Imports: corpus.
Files: `tokenizer` (tokenizer.json, BERT's tokenizer from a vocabulary, marks before queries and documents, what transformers reads
of the directories of others), `languages` (stopwords, stemming and word splitting by language), `words` (a vocabulary of whole
words; trains and reads word2vec).
"""
