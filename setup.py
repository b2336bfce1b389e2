"""harp_jax: pre-training for ad-hoc retrieval from hyperlinks and anchor texts (HARP), in JAX."""

import runpy

from setuptools import find_packages, setup

# TensorFlow only reads and writes TFRecords here: the CPU build is enough, and a third of the download.
TENSORFLOW = [
    "tensorflow-cpu>=2.18; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "tensorflow>=2.18; platform_system != 'Linux' or platform_machine != 'x86_64'",
]
EVAL = ["ir-measures>=0.3.7", "pytrec-eval-terrier>=0.5.6", "scipy>=1.11"]
BM25 = ["bm25s>=0.2.6", "PyStemmer>=2.2", "scipy>=1.11"]
WEB = ["selectolax>=1.0", "fastwarc>=2.0"]
IRDS = ["ir_datasets>=0.5.9"]
PLOTS = ["matplotlib>=3.8"]
VECTORS = ["gensim>=4.3"]
TEST = [
    "pytest>=8",
    "hypothesis>=6",
    "pandas>=2.2",
    "torch>=2.4",
    "sentence-transformers>=5",
    "mwparserfromhell>=0.6.6",
    "scipy>=1.11",
]

setup(
    name="harp_jax",
    version=runpy.run_path("harp_jax/version.py")["__version__"],
    description=__doc__,
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["harp_jax", "harp_jax.*", "data_pipeline", "data_pipeline.*"]),
        *(f"harp_jax.{name}" for name in find_packages(include=["configs", "configs.*"])),
    ],
    package_dir={"harp_jax": "harp_jax", "data_pipeline": "data_pipeline", "harp_jax.configs": "configs"},
    package_data={"harp_jax": ["py.typed"], "data_pipeline": ["*.txt"]},
    entry_points={"console_scripts": ["harp = harp_jax.__main__:main"]},
    install_requires=[
        "absl-py>=2.1",
        "argcomplete>=3.5",
        "duckdb>=1.1",
        "etils[epath]>=1.9",
        "flax>=0.10.4",
        "jax>=0.5.3",
        "ml_collections>=1.0",
        "numpy>=1.26",
        "optax>=0.2.4",
        "orbax-checkpoint>=0.11.10",
        "pyarrow>=17",
        "safetensors>=0.4.5",
        "tensorboardX>=2.6",
        "tensorflow-datasets>=4.9.7",
        "tokenizers>=0.21",
        "tqdm>=4.66",
        "transformers>=4.50",
        *TENSORFLOW,
    ],
    extras_require={
        "eval": EVAL,
        "bm25": BM25,
        "irds": IRDS,
        "plots": PLOTS,
        "web": WEB,
        "vectors": VECTORS,
        "demo": EVAL + BM25 + PLOTS,
        "tpu": ["jax[tpu]>=0.5.3"],
        "cuda": ["jax[cuda12]>=0.5.3"],
        # And Java 17. Kept out of [test]: it is 490 MB, and tests that need it skip where it is not.
        "spark": ["pyspark>=4"],
        # Runs plans on several machines (`harp plan --snakefile`). Best in an environment of its own: it brings forty packages.
        "cluster": ["snakemake>=9"],
        "test": TEST + EVAL + BM25 + IRDS + PLOTS + VECTORS + WEB,
        "dev": ["ruff>=0.9", "mypy>=1.13"],
    },
)
