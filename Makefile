# The two commands of a fresh machine: `make demo` and `make test`.
# Everything goes into .venv; a second run finds it there.

PYTHON ?= python3
VENV := .venv
# CI counts what the tests cover: make test PYTEST='coverage run -m pytest'
PYTEST ?= python -m pytest
STAMP := $(VENV)/.installed

.PHONY: demo demo-swarm test lint docs bench clean

demo: $(STAMP)
	$(VENV)/bin/kiln demo

# On a real engine of its own, which ends with it; takes a minute more the first time.
demo-swarm: $(STAMP)
	$(VENV)/bin/python -m tools.devengine up
	eval "$$($(VENV)/bin/python -m tools.devengine env)"; \
	    $(VENV)/bin/kiln demo --swarm "$$DOCKER_HOST"; status=$$?; \
	    $(VENV)/bin/python -m tools.devengine down; exit $$status

test: $(STAMP)
	$(VENV)/bin/$(PYTEST)

lint: $(VENV)/.linting
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

docs: $(VENV)/.documenting
	$(VENV)/bin/sphinx-build -W --keep-going -b html doc/source doc/build/html

bench: $(STAMP)
	$(VENV)/bin/python -m tests.bench

clean:
	rm -rf $(VENV) $(VENV)-octavia build dist doc/build .coverage* .pytest_cache .mypy_cache .ruff_cache

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'kiln needs Python 3.11 or newer; name one with PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	    { echo 'Cannot make a virtual environment: apt-get install python3-venv' >&2; exit 1; }
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/.linting: $(STAMP)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[lint]'
	@touch $@

$(VENV)/.documenting: $(STAMP)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r doc/requirements.txt
	@touch $@
