"""Parameters on disk: Orbax checkpoints of a training, Hugging Face directories, exports with their model card.

In: a training workdir, or a Hugging Face directory.
Out: parameters, configs and tokenizers; an exported directory.
Imports: text, model, input (how pairs become rows).
Files: `checkpoint` (saved and restored, verified by digests), `recorded` (config, metrics, selection and command of a run),
`huggingface` (directories read and written), `modular` (heads of sentence-transformers), `start` (what a run starts from, and
rankers with their tokenizer), `model_card`, `onnx_openvino`, `export` (a directory, its upload, first layers).
"""
