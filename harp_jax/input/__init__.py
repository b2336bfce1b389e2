"""Records to batches of static shapes, in an order that is a pure function of (seed, lane, position).

In: TFRecord shards, or judged queries and clicks with their documents. Out: numpy batches, and small cursors for resuming.
Imports: corpus, text.
Files: records (of a generation job, its shards and manifest); packing (groups of sequences to rows, how many rows); lanes (order,
cursors, prefetching, worker processes); tfrecords (shards to groups; the one file here that imports TensorFlow); ranking_groups
(judgments and clicks to groups); contrastive_groups (queries and pages apart, and what identifies them).

The trade-off: sequences are packed several per row in closed windows of 1,024 groups, which fills 95 to 97 % of the slots; in
return the number of pairs per batch varies (validity flags mark the real ones) and resuming repacks one window. Shards have no
random access, so an epoch permutes the shards, then the records of one shard at a time in memory.
"""
