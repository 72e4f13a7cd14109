# Every target sets up what it needs and starts at once the second time. `make help` lists them.
# What is fetched or built once goes to one folder, $(PRUNER_CACHE); delete it to start from nothing.

PYTHON ?= python3
PRUNER_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lake-pruner
export PRUNER_CACHE

BIN := .venv/bin
WORKERS ?= 2
# Quick tests wait for the file system's clock now and then (rule R4): one more worker has something to do meanwhile.
QUICK_WORKERS ?= $(shell expr $(WORKERS) + 1)
# One worker owns the tests that need Trino, one most that need Spark (tests/support/running/scheduling.py): a JVM costs much.
# Compiled modules are kept, whatever the environment says: each process compiled 356 modules of tests anew (6 s).
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
# Fuzzing: what is fuzzed, examples per property, and how long a soak repeats it.
FUZZED := tests/soundness tests/engines/duckdb/random/test_duckdb_random.py tests/engines/duckdb/random/test_duckdb_sqlancer.py \
	tests/engines/duckdb/native_scan/test_duckdb_native_random.py \
	tests/engines/trino/test_trino_types.py tests/protocol tests/unit/tables/hudi/test_hfile.py
N ?= 2000
MINUTES ?= 60

LOCKS := requirements-build.lock requirements.lock
# The stamps carry a checksum of what they were made from: another branch with other locks sets up again.
LOCKED := .venv/.locked-$(shell cat $(LOCKS) | cksum | tr ' ' '-')
READY := $(LOCKED)-$(shell cksum < pyproject.toml | tr ' ' '-')

NATIVE_SOURCES := tools/native_scan.py $(wildcard adapters/pruner_duckdb/native_scan/source/*)

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help setup fetch tables archives demo demo-delta demo-iceberg demo-trino quick check check-both check-matrix check-stores test faults fuzz soak referee bench head-to-head api docs trino-plugin wheel lock clean

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  %-12s %s\n' "$$name" "$$text"; done

setup: $(READY) ## Make .venv with everything at the locked versions

fetch: $(READY) ## Fetch what tests need beside .venv; each test does so by itself as well
	@$(BIN)/python -m tools.fetch

tables: $(READY) ## Unpack or build the Delta and Hudi tables of the tests; each test does so by itself as well
	@$(BIN)/python -m tests.support.kept

archives: $(READY) ## Build the tables whose builders have changed, and pack them and what Spark reads of them (tests/fixtures)
	@$(BIN)/python -m tests.support.kept --archive

demo: $(READY) ## Index a real Hudi table and query it in DuckDB, pruned and not pruned
	@$(BIN)/python -m demo.run

demo-delta: $(READY) ## Spark writes a Delta table and deletes rows; Spark and DuckDB read it, pruned and not pruned
	@$(BIN)/python -m demo.delta

demo-iceberg: $(READY) ## Spark writes an Iceberg table and deletes rows; Spark, DuckDB and Trino read it; needs a full JDK 25
	@$(BIN)/python -m demo.iceberg

demo-trino: $(READY) ## The same on a real Trino, plain and pruned catalogs; needs a full JDK 25
	@$(BIN)/python -m demo.trino

quick: $(READY) ## Tests without a JVM and killed processes, with fewer random examples and cases, about two minutes
	@PRUNER_TEST_PROFILE=quick $(PYTEST) -n $(QUICK_WORKERS) \
		-m "not spark and not trino and not faults and not load and not processes and not slow"

check: $(READY) ## Lint, formatting, types and the import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports

check-both: $(READY) ## All tests of the DuckDB adapter by both ways: statements rewritten, and the native scan
	@PRUNER_TEST_DUCKDB=both $(PYTEST) -m "not spark and not trino" -k native tests/engines tests/known_wrong

check-matrix: $(READY) ## The adapters' tests over the other versions of DuckDB and Spark that they serve
	@$(BIN)/python -m tools.matrix -n $(WORKERS) --dist loadfile

check-stores: $(READY) ## The tests of stores over MinIO, which is built with Go the first time
	@$(BIN)/python -m tools.minio
	@PRUNER_TEST_STORE=minio $(PYTEST) tests/unit/storage tests/unit/metadata tests/crash/test_faults_on_the_way.py \
		tests/engines/stores/test_store_duckdb.py tests/engines/stores/test_store_spark.py tests/engines/stores/test_store_trino.py \
		tests/engines/stores/test_store_feed.py tests/engines/stores/test_store_feed_spark.py tests/engines/stores/test_store_feed_trino.py

test: $(READY) ## All tests
	@$(PYTEST)

faults: $(READY) ## Put each fault of tests/faults/faults.txt into the code: the tests must notice
	@PRUNER_FAULTS=all $(BIN)/python -m pytest -p no:xdist -m faults tests/faults/test_all_faults.py

fuzz: $(READY) ## Property tests at N=2000 examples each
	@PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=$(N) $(PYTEST) $(FUZZED)

soak: $(READY) ## A million schedules of writers, the oldest Trino, 100,000 requests, 16 writers, 8 threads in DuckDB, then fuzz with new seeds for MINUTES=60
	@$(BIN)/python -m tests.protocol.soak --schedules 1000000 --minutes $(MINUTES)
	@PRUNER_TEST_PROFILE=soak $(BIN)/python -m pytest -n0 tests/engines/trino/test_trino_oldest.py \
		tests/unit/service/test_load.py tests/crash/test_many_writers.py
	@$(BIN)/python -m tests.engines.duckdb.native_scan.native_threads --minutes 10 --seed $$(date +%s)
	@end=$$(( $$(date +%s) + 60 * $(MINUTES) )); \
	while [ "$$(date +%s)" -lt "$$end" ]; do \
		PRUNER_TEST_PROFILE=soak PRUNER_FUZZ_N=$(N) $(PYTEST) $(FUZZED) || exit 1; done

api: $(READY) ## Write docs/api.md, errors.md, functions.md, index-functions.md and the pictures anew from the code
	@$(BIN)/python -m tools.pages.api
	@$(BIN)/python -m tools.pages.functions
	@$(BIN)/python -m tools.pages.expressions
	@$(BIN)/python -m tools.pages.errors
	@$(BIN)/python -m tools.pages.pictures
	@$(BIN)/python -m tools.pages.page_pictures

docs: $(READY) ## Build the documentation as a site in build/site
	@$(BIN)/python -m tools.pages.site

referee: $(READY) ## Ask readers of other projects about the traps, each in its own environment; writes docs/referee.md
	@SPARK_JARS=$$($(BIN)/python -c 'from tools.jars import *; print(*delta_jars(), iceberg_jar(), sep=",")') \
		$(BIN)/python referee/run.py \
		--environments $(PRUNER_CACHE)/referee --page docs/referee.md

bench: $(READY) ## Measure planning and scanning
	@$(BIN)/python -m benchmarks

head-to-head: $(READY) ## Ask readers of other projects what people ask of an event lake; writes docs/head-to-head.md
	@$(BIN)/python -m benchmarks head-to-head

trino-plugin: $(READY) ## Build the jar of the Trino plugin; needs a full JDK 25
	@$(BIN)/python -m tools.trino.plugin

wheel: $(READY) ## Build a wheel in dist/, with the Trino plugin in it; needs a full JDK 25
	@$(BIN)/python -m tools.trino.plugin
	@rm -f dist/*.whl
	@$(BIN)/hatchling build --target wheel --directory dist

lock: $(READY) ## Renew the lock files from pyproject.toml, keeping versions that still fit
	@$(COMPILE) --group build --output-file requirements-build.lock
	@$(COMPILE) --group java --output-file requirements-java.lock
	@$(COMPILE) --group duckdb-1-5 --output-file requirements-duckdb-1.5.lock
	@$(COMPILE) --group duckdb-2-0 --output-file requirements-duckdb-2.0.lock
	@$(COMPILE) --group dbt --output-file requirements-dbt.lock
	@$(COMPILE) --group store --output-file requirements-store.lock
	@$(COMPILE) --group tpc --output-file requirements-tpc.lock
	@$(COMPILE) --group browser --output-file requirements-browser.lock
	@$(COMPILE) --group docs --output-file requirements-docs.lock
	@$(COMPILE) --group spark-4 --output-file requirements-spark-4.lock
	@$(COMPILE) --all-extras --group dev --output-file requirements.lock pyproject.toml

clean: ## Delete .venv and the caches of tools; what was fetched stays in the cache folder
	@rm -rf .venv .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "The system package python3-venv is missing: install it (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "Making .venv"
	@$(PYTHON) -m venv .venv

# The build tools come first, at locked versions: pyspark is built from source and would fetch its own otherwise.
$(LOCKED): | .venv/bin/python
	@echo "Installing the locked packages into .venv (about 600 MB the first time)"
	@$(PIP) --require-hashes --requirement requirements-build.lock
	@$(PIP) --require-hashes --requirement requirements.lock
	@rm -f .venv/.locked-* && touch $@

$(READY): $(LOCKED) $(NATIVE_SOURCES)
	@$(PIP) --editable .
	@$(BIN)/python -m tools.native_scan
	@touch $@
