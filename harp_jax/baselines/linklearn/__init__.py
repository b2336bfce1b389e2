"""LinkLearn (Grangier and Bengio, 2005): text similarity learned from hyperlinks, and its baselines.

    sim(a, b) = Σ_i f(tf_ia, idf_i, l_a) · f(tf_ib, idf_i, l_b),   f(x, y, z) = MLP₁(x) · MLP₂(y) · MLP₃(z)   (Eq. 3)

In: linked documents (JSONL) for training; documents and queries for ranking.
Out: model.json and metrics in a workdir; rankings of a collection.
Imports: base, corpus, objectives, ranking (lexical), training (its metrics log).
Files: `model` (f, Okapi, their index of a collection, its ranking), `links` (constraints from hyperlinks), `train` (minimises the
cost, Eq. 6; Ranking SVM).
"""
