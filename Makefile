# The two commands of a fresh machine: `make demo` and `make test`.
# Everything goes into .venv, and no more than the target needs; a second run finds it there.

PYTHON ?= python3
VENV := .venv
# CI counts what the tests cover: make test PYTEST='coverage run -m pytest'
PYTEST ?= python -m pytest
# As many processes share the tests, one more than processors, as tests also wait; WORKERS=0
# is one after the other, in this process.
WORKERS ?= $(shell expr $$(nproc) + 1)
STAMP := $(VENV)/.installed
INSTALL := $(PYTHON) -m tools.environment $(VENV)

.PHONY: demo demo-swarm test lint docs changelog bench clean

demo: $(VENV)/.showing
	$(VENV)/bin/kiln demo

# On a real engine of its own, which ends with it; takes a minute more the first time.
demo-swarm: $(STAMP)
	$(VENV)/bin/python -m tools.devengine up
	eval "$$($(VENV)/bin/python -m tools.devengine env)"; \
	    $(VENV)/bin/kiln demo --swarm "$$DOCKER_HOST"; status=$$?; \
	    $(VENV)/bin/python -m tools.devengine down; exit $$status

test: $(STAMP)
	$(VENV)/bin/$(PYTEST) -n $(WORKERS) --dist worksteal

lint: $(VENV)/.linting
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/python -m tools.plain_words
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --explicit-package-bases --namespace-packages doc/examples
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python doc/examples

docs: $(VENV)/.documenting
	$(VENV)/bin/sphinx-build -W --keep-going -b html doc/source doc/build/html

# CHANGELOG.rst, from the notes in releasenotes/.
changelog: $(STAMP)
	$(VENV)/bin/python -m tools.changelog

bench: $(STAMP)
	$(VENV)/bin/python -m tests.bench

clean:
	rm -rf $(VENV) build dist doc/build *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache

# Each of these installs what the ones before it have not. The script says what it does.
PACKAGE := setup.cfg setup.py pyproject.toml

$(VENV)/.showing: $(PACKAGE)
	@$(INSTALL) clusters
	@touch $@

$(STAMP): $(PACKAGE)
	@$(INSTALL) test
	@touch $(VENV)/.showing $@

$(VENV)/.linting: $(STAMP)
	@$(INSTALL) lint
	@touch $@

$(VENV)/.documenting: $(STAMP) doc/requirements.txt
	@$(INSTALL) -r doc/requirements.txt
	@touch $@
