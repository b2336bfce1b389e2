"""The generation job: hyperlinked text to TFRecord shards of pre-training pairs."""
