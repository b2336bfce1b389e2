"""The pre-training tasks, each as pure functions: HARP's four, one more from links, and the controls.

In: sentences with anchors and weights; passages; a random generator for each pair.
Out: the token ids of a pair's two sides, or the reason why there is no pair.
Imports: text.
Files:
  pair      the data that the tasks exchange: anchors, sentences, requests, passages, sides
  sampling  words drawn by their weights (HARP Eq. 2 to 5)
  rqp       Representative Query Prediction (HARP 3.2.1)
  qdm       Query Disambiguation Modeling (HARP 3.2.2)
  rdp       Representative Document Prediction (HARP 3.2.3)
  acm       Anchor Co-occurrence Modeling (HARP 3.2.4)
  adp       Anchor Destination Prediction: hard negatives, beyond the paper
  mlm       pieces of running text for masked language modelling (HARP Eq. 15)
  ict       Inverse Cloze Task, a control
  wlp       Wiki Link Prediction, a control
  prop      PROP and B-PROP, controls
"""
