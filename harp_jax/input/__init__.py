"""Records to batches of static shapes, in an order that is a pure function of (seed, lane, position).

In: TFRecord shards, or judged queries and clicks with their documents. Out: numpy batches and small cursors to resume from.
Imports: corpus, text.
Files: records (feature names of the shards); tfrecords (shards to groups; the one file here that imports TensorFlow);
ranking_groups and click_groups (judgments and clicks to groups); packing (groups to rows); layout (how many rows a batch
has); lanes (the order, cursors, batches ahead of time).

The trade-off: sequences are packed several to a row in closed windows of 1,024 groups, which fills 95 to 97 % of the slots;
what it costs is that the number of pairs in a batch varies (validity flags say which are there) and that resuming repacks
one window. There is no random access inside a shard, so an epoch's order permutes shards, then one shard in memory.
"""
