"""Text to ids: subword tokens.

In: strings, and vocabularies on disk.
Out: token ids, vocabularies.
Imports: corpus.
Files: `tokenizer` (tokenizer.json, BERT's tokenizer from a vocabulary, marks before queries and documents, what transformers reads
of the directories of others), `languages` (stopwords, stemming and word splitting by language).
"""
