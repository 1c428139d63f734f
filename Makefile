# Everything a person runs here. Each target makes what it needs, in .venv, .venv-other, .venv-others
# and js/node_modules alone.

PYTHON ?= python3
BIN    := .venv/bin
BUNDLE := ensemble_notebook/static/timeline.js

INSTALLED    := .venv/.installed
OTHER_INSTALLED := .venv-other/.installed
NODE_MODULES := js/node_modules/.package-lock.json
LABEXTENSION := .venv/share/jupyter/labextensions/ensemble-notebook
JS_SOURCES   := $(shell find js -path js/node_modules -prune -o -type f -print 2>/dev/null)

# The marks are set by tests/conftest.py.
SHARING := kernel or weights or build

# Hundreds of kernels and child processes import the package: without compiled files, each takes a second longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo lessons wheel site test test-others quick quick-1 quick-2 quick-other check bench pictures conformance frames-document cell-schema wire-types recorded-messages demos fix clean lint types pytest vitest weights
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

demo: $(INSTALLED) $(BUNDLE) ## Play recorded runs in a notebook and open JupyterLab on it: no model, key or network
	$(BIN)/jupyter-ensemble demo

wheel: $(INSTALLED) ## Build dist/*.whl, which needs no Node to be installed and used
	$(BIN)/python -m build --wheel

test: vitest pytest ## Run every test: TypeScript, Python, a real kernel, a real browser

quick: $(INSTALLED) $(NODE_MODULES) ## Run what takes a minute: no kernel, browser, model, nor what was measured to be slow
	$(MAKE) --jobs=3 --output-sync=target --keep-going quick-1 quick-2 vitest

# Two parts that know nothing of each other: with tests as short as these, a tenth of the time would go into what xdist
# tells between its processes, each of which collects all tests.
quick-1 quick-2: $(INSTALLED)
	$(BIN)/python -m pytest -q --part $(@:quick-%=%)/2 --hypothesis-profile quick \
		--ignore tests/browser -m 'not ($(SHARING) or slow)'

# The newest other Python of this machine. Where there is none, that is said, and nothing else is lost: a machine of
# another kind may have it.
quick-other: $(INSTALLED) ## Run the quick tests under another Python, if this machine has one
	@if other=$$($(BIN)/python tests/support/other_python.py) && [ -n "$$other" ]; then \
		$(MAKE) $(OTHER_INSTALLED) OTHER_PYTHON="$$other" && echo "The quick tests under $$other:" && \
		.venv-other/bin/python -m pytest -q --numprocesses 3 --dist worksteal --reruns 1 --rerun-show-tracebacks --hypothesis-profile quick \
			--ignore tests/browser -m 'not ($(SHARING) or slow)'; \
	else echo "NOT RUN under a second Python: this machine has none beside $$($(BIN)/python --version)."; fi

# What has one process only runs beside each other. What the many processes of the tests need, they have for themselves.
check: ## What CI runs: formatting, lint, architecture, types, every test
	$(MAKE) --jobs=2 --output-sync=target lint types vitest
	$(MAKE) quick-other
	$(MAKE) pytest

# Not among the tests of `check`: it fetches the newest versions of what others make, and takes minutes.
FILES ?= tests/others
site: $(INSTALLED) $(BUNDLE) ## Build the site of the documentation in build/site/html
	$(BIN)/python -m pip install --quiet --group site
	$(BIN)/python docs/site/build.py build/site

test-others: $(INSTALLED) $(BUNDLE) ## Run us with hosts, frameworks and packages of others, and write docs/others.md
	$(BIN)/python -m pytest $(FILES) --write-document

bench: weights ## Measure what the engine and the magic cost
	$(BIN)/python -m benchmarks

pictures: $(INSTALLED) $(BUNDLE) ## Photograph the timeline for the README, light and dark
	$(BIN)/python -m tests.browser.pictures

lessons: $(INSTALLED) ## Run the lessons anew, and save them with what they show
	$(BIN)/python -m tests.support.lessons

conformance: $(INSTALLED) ## Write docs/conformance.md from the tests
	$(BIN)/python -m tests.conformance

frames-document: $(INSTALLED) ## Write docs/frames.md from the tables of the trace
	$(BIN)/python -m tests.support.frames_document

cell-schema: $(INSTALLED) ## Write the JSON Schema of cells from the vocabulary of the cell language
	$(BIN)/jupyter-ensemble schema > ensemble_notebook/ensemble-cell.schema.json

wire-types: $(INSTALLED) ## Write TypeScript's types of what Python tells the timeline
	$(BIN)/python -m tests.support.wire_types

demos: $(INSTALLED) ## Record the runs that the demos play, from the teams in tests/support/demo_teams.py
	$(BIN)/python -m tests.support.make_demos

recorded-messages: $(INSTALLED) ## Record what the timeline is sent of real runs, for the TypeScript tests
	$(BIN)/python -m tests.support.recorded_messages

fix: $(INSTALLED) ## Repair formatting and lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what was built and what tests left (.venv, .venv-others and js/node_modules stay)
	rm -rf build dist ensemble_notebook/static tests/artefacts
	rm -rf .benchmarks .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find ensemble_notebook tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# --- The parts of `check` ---------------------------------------------------------------------------------------------

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(INSTALLED) $(NODE_MODULES)
	$(BIN)/mypy
	cd js && npm run check

vitest: $(NODE_MODULES)
	cd js && npm test

# Tests of a file share what they start, so that each file goes to one process, long ones first. Many tests wait, so that
# three processes are done sooner than two on two cores. What has a browser in it comes in a phase of its own: it leaves
# an event loop in its process, in which tests of the caller's loop would fail.
# A machine may starve any of the many processes: a test that fails is run once more, and the summary says why.
pytest: weights
	$(BIN)/python -m pytest --reruns 1 --rerun-show-tracebacks --numprocesses 3 --dist loadfile --no-loadscope-reorder --ignore tests/browser
	$(BIN)/python -m pytest --reruns 1 --rerun-show-tracebacks --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/browser

# The local model's weights are fetched once into the user's cache; a second call only checks them.
weights: $(INSTALLED) $(BUNDLE)
	$(BIN)/jupyter-ensemble models pull

# --- What is made once, and again when its source is newer ------------------------------------------------------------

# Installing the package builds the timeline, which needs js/node_modules: two `npm ci` at once would empty it under
# each other.
$(INSTALLED): pyproject.toml hatch_build.py js/package.json | $(NODE_MODULES)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit("Python >= 3.11 is needed, and $(PYTHON) is %d.%d: name another one with `make PYTHON=python3.12 ...`" % v[:2] if v < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[lab,plots,parquet]' --group dev
	@touch $@

$(OTHER_INSTALLED): pyproject.toml hatch_build.py js/package.json | $(NODE_MODULES)
	$(OTHER_PYTHON) -m venv .venv-other
	.venv-other/bin/python -m pip install --quiet --upgrade pip
	.venv-other/bin/python -m pip install --quiet --editable '.[lab,plots,parquet]' --group dev
	@touch $@

$(NODE_MODULES): js/package-lock.json
	cd js && npm ci
	@touch $@

$(BUNDLE): $(NODE_MODULES) $(JS_SOURCES) | $(INSTALLED)
	cd js && npm run build
	rm -rf $(LABEXTENSION)/static
	cp -R ensemble_notebook/static/labextension/. $(LABEXTENSION)
	@touch $@
