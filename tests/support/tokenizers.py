"""Tokenizers trained in a test, without the Hub: WordPiece (BERT), byte-level BPE (ModernBERT, RoBERTa), Unigram (XLM-R), BPE of
whole lines (Gemma, mmBERT)."""

import io
import json
import os
from collections.abc import Iterable

from harp_jax.text.tokenizer import Tokenizer as WordPiece

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SPECIAL_OF = {
    "modernbert": ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],
    "gemma": ["<bos>", "<pad>", "<eos>", "<unk>", "<mask>"],
}


def save_trained(kind: str, directory: str, texts: Iterable[str], size: int = 400) -> str:
    """Writes the tokenizer of `kind` to `directory` and returns it.

    Kinds: "bert", "bert-cased", "modernbert", "roberta" (both BPE), "xlm-roberta" (Unigram), "xlm-roberta-nmt", which normalises
    like XLM-R (with a table that only SentencePiece has), "xlm-roberta-nfkc", which differs in a few letters, "gemma" (BPE).
    "modernbert" (like published models), "xlm-roberta-nfkc" and "gemma" name transformers' general class, the others their own.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    if kind.startswith("bert"):
        pieces = tokenizers.BertWordPieceTokenizer(lowercase=kind == "bert")
        pieces.train_from_iterator(texts, vocab_size=size, min_frequency=1, show_progress=False)
        vocabulary = pieces.get_vocab()
        ordered = sorted(vocabulary, key=vocabulary.__getitem__)
        WordPiece.of_words(ordered, 512, do_lower_case=kind == "bert").save(directory)
        return directory
    special = SPECIAL_OF.get(kind, SPECIAL)
    first, pad, last, unknown, mask = special
    wanted = {"vocab_size": size, "special_tokens": special, "show_progress": False}
    if kind.startswith("xlm-roberta"):
        made = tokenizers.Tokenizer(models.Unigram())
        spaces = normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
        if kind == "xlm-roberta-nfkc":
            made.normalizer = normalizers.Sequence([normalizers.NFKC(), spaces])
        if kind == "xlm-roberta-nmt":
            made.normalizer = normalizers.Sequence([normalizers.Precompiled(table_of_sentencepiece()), spaces])
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(unk_token=unknown, **wanted)
    elif kind == "gemma":
        made = tokenizers.Tokenizer(models.BPE(unk_token=unknown, fuse_unk=True, byte_fallback=True))
        made.normalizer = normalizers.Replace(" ", "▁")
        # Merges are learned word by word; the finished tokenizer merges whole lines, since no space is left to split at.
        words = [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Punctuation("isolated")]
        made.pre_tokenizer = pre_tokenizers.Sequence(words)
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        trainer = trainers.BpeTrainer(**wanted)
    else:
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **wanted)
    made.train_from_iterator(texts, trainer)
    if kind.startswith("xlm-roberta"):
        # Scores in eighths, which every JSON parser reads exactly: else `tokenizers` and Python (so transformers) may differ in the
        # last bit of a score, and split a run of one letter into the same pieces in another order.
        pieces = json.loads(made.to_str())["model"]["vocab"]
        made.model = models.Unigram([(piece, round(score * 8) / 8) for piece, score in pieces], SPECIAL.index("<unk>"))
    if kind == "gemma":
        model = json.loads(made.to_str())["model"]
        ids = {token: number for number, token in enumerate([*model["vocab"], *(f"<0x{i:02X}>" for i in range(256))])}
        merges = [tuple(pair) for pair in model["merges"]]
        made.model = models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    ends = [(token, made.token_to_id(token)) for token in (first, last)]
    if kind == "roberta":
        made.post_processor = processors.RobertaProcessing(ends[1], ends[0], add_prefix_space=False)
    else:
        twice = f"{last} {last}" if kind.startswith("xlm-roberta") else last
        made.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}", pair=f"{first} $A {twice} $B {last}", special_tokens=ends
        )
    os.makedirs(directory, exist_ok=True)
    made.save(os.path.join(directory, "tokenizer.json"))
    roles = {"cls_token": first, "pad_token": pad, "sep_token": last, "mask_token": mask, "unk_token": unknown}
    own = {"xlm-roberta": "XLMRobertaTokenizer", "roberta": "RobertaTokenizer"}
    name = own.get(kind.removesuffix("-nmt"), "PreTrainedTokenizerFast")
    with open(os.path.join(directory, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": name, "model_max_length": 512, **roles}, file)
    return directory


def table_of_sentencepiece() -> bytes:
    """SentencePiece's table for the normalisation "nmt_nfkc", which is part of every model that it trains."""
    import sentencepiece
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat"]), model_writer=written, vocab_size=99, hard_vocab_limit=False
    )
    return ModelProto.FromString(written.getvalue()).normalizer_spec.precompiled_charsmap
