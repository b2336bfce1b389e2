"""Parameters on disk: Orbax checkpoints of a training, Hugging Face directories, exports with their model card.

In: a training workdir, or a Hugging Face directory. Out: parameters, configs and tokenizers; an exported directory.
Imports: text, model, input (how pairs become rows).
Files: `checkpoint` (saved and restored, verified by digests), `recorded` (config, metrics, and selection of a run),
`huggingface` (reads and writes directories), `sentence_transformers` (reads its heads and vectors), `start` (initial encoders,
rankers with their tokenizer), `onnx_openvino`, `export` (with its model card).
"""
