"""Parameters on disk: Orbax checkpoints of a training, Hugging Face directories, exports with their model card.

In: a training workdir, or a Hugging Face BERT directory.
Out: parameters, configs and tokenizers; an exported directory.
Imports: text, model, input (how pairs become rows).
Files: `checkpoint` (saved and restored, verified by digests), `recorded` (config, metrics, selection and command of a run),
`sentence_transformers_layout` (its own files), `huggingface` (directories read and written), `first_layers` (a smaller start),
`encoder` (what a run starts from, and rankers with their tokenizer), `card_metadata`, `model_card`,
`torch_ranker` (the model that is traced), `formats` (ONNX, OpenVINO), `export`, `hub` (upload).
"""
