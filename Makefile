# The two commands of a fresh machine: `make demo` and `make test`.
# Everything goes into .venv, and no more than the target needs; a second run finds it there.

PYTHON ?= python3
VENV := .venv
# Of its own, as these tools bring many packages that kiln has nothing to do with.
RELEASING := $(VENV)-releasing
# CI has the longest tests named: make test PYTEST='python -m pytest --durations=15'
PYTEST ?= python -m pytest
# As many processes share the tests, one more than processors, as tests also wait; WORKERS=0
# is one after the other, in this process.
WORKERS ?= $(shell expr $$(nproc) + 1)
# Each of the processes that tests start would compile all of kiln once more.
unexport PYTHONDONTWRITEBYTECODE
STAMP := $(VENV)/.installed
INSTALL := $(PYTHON) -m tools.environment $(VENV)

.PHONY: demo demo-swarm test lint docs changelog bench dist constraints sbom audit clean

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
	$(VENV)/bin/python -m tools.code_rules
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

# The wheel and the source archive of the last commit.
dist: $(STAMP)
	$(VENV)/bin/python -m tools.dist dist

# The newest packages that a site and a build need, by their hashes. The files are committed.
LOCK = $(RELEASING)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
    --generate-hashes --no-config --custom-compile-command 'make constraints'
EXTRAS := clusters docker heat ironic jobboard mariadb metrics nova notifications postgresql redis tracing
constraints: $(RELEASING)/.installed
	$(LOCK) setup.cfg $(EXTRAS:%=--extra=%) --output-file constraints.txt
	echo setuptools | $(LOCK) - --output-file tools/building.txt

# kiln and what a site has with it, as CycloneDX.
sbom: $(RELEASING)/.installed
	$(RELEASING)/bin/python -m tools.sbom dist/kiln-compute.cdx.json $(EXTRAS)

# Known vulnerabilities of these packages; a package that cannot be looked up is a failure too.
audit: $(RELEASING)/.installed
	$(RELEASING)/bin/pip-audit --strict --disable-pip --require-hashes -r constraints.txt
	$(RELEASING)/bin/pip-audit --strict --disable-pip --require-hashes -r tools/building.txt

clean:
	rm -rf $(VENV) $(RELEASING) build dist doc/build *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache

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

$(RELEASING)/.installed: tools/releasing.txt
	@$(PYTHON) -m tools.environment $(RELEASING) -r $<
	@touch $@
