"""LinkLearn (Grangier and Bengio, 2005): a similarity of texts learned from hyperlinks, and what it is compared with.

    sim(a, b) = Σ_i f(tf_ia, idf_i, l_a) · f(tf_ib, idf_i, l_b),   f(x, y, z) = MLP₁(x) · MLP₂(y) · MLP₃(z)   (Eq. 3)

`collection.py` counts words, `links.py` makes the constraints, `model.py` is f, `train.py` minimises the cost, `rank.py` ranks
any collection by a learned f or by Okapi (`okapi.py`), `ranking_svm.py` is the alternative that learns a weight a word.
"""
