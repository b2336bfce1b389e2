"""Every field a training config may have, with its default. A config file takes one of these and changes what it means."""

from typing import Any

from ml_collections import ConfigDict

from harp_jax.errors import InputError


def _common() -> ConfigDict:
    c = ConfigDict()
    c.init = ""  # Hugging Face directory or training workdir whose parameters start the run; empty: from scratch
    c.tokenizer = ""  # Hugging Face directory or vocab.txt; empty: that of `init`
    c.model = ConfigDict()  # ignored where `init` gives the shape, except dropout and attention
    c.model.layers = 12
    c.model.hidden = 768
    c.model.heads = 12
    c.model.intermediate = 0  # 0: 4 × hidden
    c.model.max_positions = 512
    c.model.dropout = 0.1
    c.model.attention_dropout = 0.0  # 0: all attention implementations train the same model
    c.model.attention = "auto"  # what suits the backend and dtype; or "xla", "cudnn" (GPU, 16 bits), "splash" (TPU)
    c.model.remat = "none"  # or "dots", "layer": less memory, more computing (bert.py)
    c.row_length = 512  # slots of a packed row, and the longest sequence
    c.rows = 0  # rows of a batch; 0: what the configured pairs need, from the data's mean length
    c.accumulate = 1  # microbatches that a batch is computed in, one after the other: for memory
    c.lanes = 8  # independent streams of the input; a multiple of the devices along the data axis
    c.window = 1024  # groups of a lane shuffled and packed together; an epoch of them at most, where epochs count
    c.learning_rate = 1e-4
    c.schedule = "linear"  # after warmup: "linear" to 0, "cosine" to 0, "constant"
    c.warmup = 0.1  # share of the steps
    c.beta1 = 0.9
    c.beta2 = 0.999
    c.weight_decay = 0.0  # not on biases and layer norms
    c.clip_norm = 1.0  # 0: off
    c.mesh = ConfigDict()
    c.mesh.data = -1  # -1: all devices that are left
    c.mesh.fsdp = 1
    c.mesh.model = 1
    c.dtype = "float32"  # of the computation: "bfloat16" on TPU and GPU; parameters stay float32
    c.prng = "threefry"  # "rbg": faster dropout on TPU, but its bits depend on the sharding
    c.seed = 0
    c.log_every = 50
    c.checkpoint_every = 1000
    c.keep_checkpoints = 2
    c.eval_every = 0  # steps between evaluations on held-out data; 0: never
    c.eval_batches = 16
    c.spike = 8.0  # standard deviations above the usual loss from which an update is skipped; 0: never
    c.max_skipped = 100  # updates skipped for Inf, NaN or a spike before the run stops
    c.compilation_cache = True  # in the user's cache directory
    return c


# What the paper (its losses, its masking) and its authors' code do otherwise than our defaults; the generation job's choices
# have presets of the same names. The authors' code also starts from BERT's next-sentence head, which this one leaves out.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"mlm_side": "both"},
    "official": {
        "pair_loss": "softmax_margin",
        "task_sampling": "proportional",
        "mlm_whole_words": True,
        "model.attention": "xla",
        "model.attention_dropout": 0.1,
    },
}


def pretrain(preset: str = "") -> ConfigDict:
    """Defaults of pre-training: HARP's four tasks with MLM (paper section 4.3.2 where it says something).

    `preset` "paper" or "official" sets what `PRESETS` says; InputError for another name.
    """
    c = _common()
    c.stage = "pretrain"
    c.data = ()  # output directories of the generation job
    c.tasks = ("rqp", "qdm", "rdp", "acm")  # streams to read; "mlm" is running text
    c.task_sampling = "uniform"  # over the tasks, as in the paper; or "proportional" to their records
    c.task_weights = ConfigDict({task: 1.0 for task in ("rqp", "qdm", "rdp", "acm", "ict", "wlp", "prop")})
    c.pair_weight = 1.0  # 0: the MLM-only control, on the same batches
    c.pair_loss = "hinge"  # or "logistic", "softmax_margin" (the authors' code)
    c.margin = 1.0
    c.mlm_weight = 1.0
    c.mlm_rate = 0.15
    c.mlm_side = "document"  # or "query", "both"; hiding one of four query words hurts the pair
    c.mlm_whole_words = False  # hide all wordpieces of a word or none
    c.batch_pairs = 128  # on average; the number in a batch varies with packing
    c.batch_tokens = 0  # real tokens of a batch, to half a pair, whatever a task's lengths; 0: what `batch_pairs` takes
    c.steps = 100_000
    if preset not in ("", *PRESETS):
        raise InputError(f"unknown preset {preset!r}; use one of {', '.join(PRESETS)}, or none")
    c.update_from_flattened_dict(PRESETS.get(preset, {}))
    c.lock()
    return c


def finetune() -> ConfigDict:
    """Defaults of fine-tuning a re-ranker on judged queries (paper section 4.3.3 where it says something)."""
    c = _common()
    c.stage = "finetune"
    c.spike = 0.0  # the losses of small batches of judged pairs scatter too much to call one of them a spike
    c.init_head = "fresh"  # the paper keeps embeddings and attention layers only; or "pretrained"
    c.docs = ""
    c.queries = ""
    c.qrels = ""
    c.candidates = ""  # a TREC run: where negatives come from
    c.folds = ""  # qid<TAB>fold
    c.train_folds = ()  # empty: all queries
    c.train_queries = ""  # a file whose lines begin with the query ids to train on; empty: all
    c.fields = ("title", "url", "body")  # of a document, in this order
    c.query_mark = ""  # a token before every query, such as "[unused0]": what coarse-tuning calls [Q]
    c.document_mark = ""  # the same before every document, [D]
    c.negatives = 7  # for each positive, drawn from the candidates
    c.missed_positives = True  # train on relevant documents that the candidates lack, too
    c.rank_loss = "bce"  # Eq. 18; or "hinge", "logistic", "lce"
    c.margin = 1.0
    c.mqp_weight = 0.0  # masked query prediction (SJTF) beside the ranking loss; 0: off
    c.select = ""  # a measure such as "RR@10": keep the parameters that are best by it on held-out training queries
    c.select_fraction = 0.1  # of the training queries, grouped by relevant document
    c.select_queries = 500  # held out, at most
    c.select_depth = 100  # candidates re-ranked for each of them
    c.batch_pairs = 128  # query-document pairs in a batch, on average
    c.learning_rate = 1e-5
    c.steps = 0  # 0: `epochs` over the training positives
    c.epochs = 2.0
    c.lock()
    return c


def coarse_tune() -> ConfigDict:
    """Defaults of coarse-tuning on a click log (Keyaki and Keyaki, section 3.1)."""
    c = _common()
    c.stage = "coarse_tune"
    c.docs = ""
    c.fields = ("title", "url", "body")
    c.clicks = ""  # ORCAS: qid, query, docid, url
    c.sample = 0.08  # share of its pairs
    c.replaced = 0.5  # share of the pairs that get another document (NotPair)
    c.documents_only = False  # the control: MLM on the clicked documents, without queries (continual pre-training)
    c.query_mark = "[unused0]"  # [Q]
    c.document_mark = "[unused1]"  # [D]
    c.qdpp_weight = 1.0
    c.mlm_weight = 1.0
    c.mlm_rate = 0.15
    c.batch_pairs = 80  # sequences in a batch, on average
    c.row_length = 256
    c.learning_rate = 1e-3  # of bert-tiny
    c.weight_decay = 0.01  # AdamW
    c.steps = 0  # 0: `epochs` over the pairs (or the documents)
    c.epochs = 4.0
    c.lock()
    return c


def neural_ir() -> ConfigDict:
    """Defaults of the neural rankers DRMM, DUET, KNRM and Conv-KNRM, trained on judged queries as fine-tuning is."""
    c = _common()
    c.stage = "neural_ir"
    c.model = ConfigDict()  # `neural_ir.NeuralConfig`; each model reads what it needs
    c.model.name = "knrm"  # or "conv_knrm", "drmm", "duet"
    c.model.dimension = 100  # of word vectors, where `vectors` does not say
    c.model.query_length = 20  # words; longer queries are cut
    c.model.train_vectors = True  # KNRM, Conv-KNRM
    c.model.gate = "idf"  # DRMM; or "vector"
    c.model.bins = 30  # DRMM, the one of exact matches included
    c.model.kernels = 11  # KNRM, Conv-KNRM, the one of exact matches included
    c.model.ngrams = 3  # Conv-KNRM: n-grams of 1 … ngrams words
    c.model.filters = 128  # Conv-KNRM, DUET
    c.model.hidden = 300  # DUET: of its dense layers
    c.model.pool = 100  # DUET: words of a window of the document's max-pooling
    c.model.graphs = 2000  # DUET: character n-graphs that are counted
    c.model.dropout = 0.0  # DUET
    c.tokenizer = ""  # directory of a vocabulary (harp_jax.text.words); empty: the words of `docs`
    c.stemmer = "english"  # of that vocabulary, where it is made here
    c.stopwords = "english"  # left out of it: those of BM25, or a file with one a line; empty: none
    c.vectors = ""  # word vectors, a text file of word2vec or GloVe; empty: random ones
    c.row_length = 300  # words of a document; longer ones are cut
    c.docs = ""
    c.fields = ("title", "url", "body")  # of a document, in this order
    c.queries = ""
    c.qrels = ""
    c.candidates = ""  # a TREC run: where negatives come from
    c.folds = ""  # qid<TAB>fold
    c.train_folds = ()  # empty: all queries
    c.train_queries = ""  # a file whose lines begin with the query ids to train on; empty: all
    c.negatives = 4  # for each positive, drawn from the candidates anew in every epoch
    c.missed_positives = True  # train on relevant documents that the candidates lack, too (see ranking_data.py)
    c.rank_loss = "hinge"  # pairwise; or "logistic", "bce", "lce"
    c.margin = 1.0
    c.select = ""  # a measure such as "RR@10": keep the parameters that are best by it on held-out training queries
    c.select_fraction = 0.1  # of the training queries, grouped by relevant document
    c.select_queries = 500  # held out, at most
    c.select_depth = 100  # candidates re-ranked for each of them
    c.batch_pairs = 64  # (query, positive, negative) triples in a batch
    c.learning_rate = 1e-3
    c.lanes = 1  # a multiple of the devices along the data axis
    c.window = 256
    c.steps = 0  # 0: `epochs` over the training positives
    c.epochs = 10.0
    c.checkpoint_every = 10_000
    c.lock()
    return c


def linklearn() -> ConfigDict:
    """Defaults of LinkLearn (`linklearn.train`)."""
    c = ConfigDict()
    c.docs = ()  # linked documents, JSONL; documents without links may stand in other files
    c.redirects = ()  # alias<TAB>id
    c.stemmer = "english"
    c.train_fraction = 0.5  # of the documents; links between the two sides are dropped
    c.hidden = 10  # units of each MLP
    c.loss = "hinge"  # or "logistic": RankNet's cross-entropy
    c.batch_documents = 32  # documents d of a step, each with one linked document …
    c.negatives = 15  # … and so many that are not linked: 480 constraints
    c.negatives_from = "uniform"  # as in the paper; or "linked": in proportion to links, against popularity
    c.learning_rate = 3e-3
    c.steps = 10_000
    c.eval_every = 250  # steps between evaluations on held-out documents
    c.patience = 8  # evaluations without a better one before training stops
    c.eval_queries = 150
    c.eval_documents = 20_000
    c.ranking_svm_constraints = 0  # train Ranking SVM beside it on so many
    c.ranking_svm_c = 1.0
    c.seed = 0
    c.lock()
    return c
