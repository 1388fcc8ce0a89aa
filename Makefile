# Two commands do all set-up: `make demo` and `make test`. PYTHON names another interpreter than python3.11.
PYTHON ?= python3.11
VENV := .venv
RUN := TF_CPP_MIN_LOG_LEVEL=3 $(VENV)/bin/python

.PHONY: demo test clean-demo

demo: $(VENV)/.app-installed
	@$(RUN) -m keras_bert_app.cli.demo

test: $(VENV)/.dev-installed
	$(RUN) -m pytest -n 2 --dist worksteal

# The stamps are made last, so that an interrupted installation is taken up again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app-installed: requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.dev-installed: requirements-dev.txt $(VENV)/.app-installed
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

clean-demo:
	rm -rf runs/demo saved_models/docs_bert saved_models/docs_bert_ids
