"""The commands of the generation job besides `harp generate`: parse, call, print.

In: parsed options.
Out: printed results, files.
Imports: the rooms of the package whose functions they call; the parsers of harp_jax.base.cli.
Files:
  documents    harp documents: the documents of pages
  anchors      harp anchors: anchor texts of every page
  survey       harp survey: documents, anchor texts and held-out anchors of a site
  inspect      harp inspect: check the shards of a job, print statistics and examples
  teach        harp teach: add a ranker's scores to the pairs, choose harder negatives
  parquet      harp parquet: the texts of pairs, for other tools
  vocabulary   harp vocabulary: train a vocabulary, WordPiece or Unigram
  sample_wiki  harp sample-wiki: an invented wiki with questions, for demos and tests
"""
