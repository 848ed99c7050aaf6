# The project's commands. Each one installs what it needs. The machine needs only Python 3.11+, and most commands Java 17+.
.DEFAULT_GOAL := help
.PHONY: help setup hooks demo test test-jobs test-pages test-browser test-cluster test-faults mutants mutants-pyspark parity fuzz platforms nightly lint format \
  test-sail conventions docs notebook test-notebook test-site test-database benchmark benchmark-quick benchmark-check figures test-speed dist package package-check test-orchestrators clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

# Keep compiled modules. Otherwise each process of a test run spends some seconds on compiling all tests again.
unexport PYTHONDONTWRITEBYTECODE

# uv creates the environments. It caches packages, so Spark is built only once for all environments that need it.
UV := $(or $(shell command -v uv),.venv-uv/bin/uv)

.venv-uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer is needed ('$(PYTHON)' is older or missing): install it, or say make PYTHON=python3.12" >&2; exit 1; }
	@echo "installing uv, which creates the environments, into .venv-uv"
	@$(PYTHON) -m venv .venv-uv
	@.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9

# Create the environment in the folder of the target. Install the packages that the first prerequisite lists, and those of the argument.
define make-environment
	@echo "installing into $(@D) (the first time this takes up to a minute)"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python -r $< $(1)
endef

# Install again if requirements-dev.txt or pyproject.toml is newer than the target.
$(VENV)/.installed: requirements-dev.txt pyproject.toml | $(UV)
	$(call make-environment,-e .)
	@touch $@

# An archive of Spark's classes, so that tests that start many JVMs start them faster: tests/class_archive.py.
$(VENV)/.classes: $(VENV)/.installed tests/class_archive.py | java
	@echo "reading Spark's classes into $(@D)/spark-classes.jsa"
	@PYTHONPATH="$(CURDIR)/tests:$(CURDIR)" $(@D)/bin/python tests/class_archive.py >/dev/null 2>&1 || \
	  echo "this Java keeps no archive of classes: the tests start without" >&2
	@touch $@

# Where Java is.
JAVA := $(shell command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java")

.PHONY: java
java:
	@[ -n "$(JAVA)" ] || \
	  { echo "Java 17 or newer is needed and no 'java' was found: install it (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME" >&2; exit 1; }

setup: $(VENV)/.installed  ## create the environment

hooks: setup  ## install checks of style, types and imports that run before every commit
	@$(BIN)/pre-commit install

# Without Java the demo runs on Sail, an engine that needs none; `make demo JAVA=` does so on any machine.
.venv-sail/.installed: pyproject.toml | $(UV)
	@echo "installing into $(@D) (the first time this takes up to a minute)"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python -e '.[sail,report]'
	@touch $@

demo: $(if $(JAVA),setup,.venv-sail/.installed)  ## evaluate and compare three models, on Spark or without Java on Sail
ifneq ($(JAVA),)
	@echo "three models on made-up ratings, evaluated and compared on Spark: some 50 seconds. make demo JAVA= runs on Sail"
	@$(BIN)/python jobs/quickstart.py
else
	@echo "three models on made-up ratings, evaluated and compared on Sail: some 5 seconds. With Java 17 or newer it runs on Spark"
	@.venv-sail/bin/python jobs/quickstart.py --engine sail
endif

# Run two test files at a time, each with its own Spark. A test file waits for Spark about as long as it computes itself.
# CI says BY_TWO= and runs two targets at a time instead: there each Spark starts once.
BY_TWO := --numprocesses=2 --dist=loadfile --no-loadscope-reorder

# tests/helpers/lengths.py says which tests `make test` runs, and which .ci/run and `make nightly`. Without Java `make test` leaves out the
# tests on PySpark, says so, and fails in CI. PARTS="Sail metrics" runs some of the parts that tests/parts.py names.
PARTS ?=
test: setup .venv-platform-sail/.installed $(if $(JAVA),$(VENV)/.classes)  ## run the front of the tests: without Spark, on Sail and on PySpark
	@JAVA="$(JAVA)" $(BIN)/python tests/parts.py $(PARTS)

test-features: java setup .venv-platform-sail/.installed $(VENV)/.classes  ## run the tests of the library that make test leaves to .ci/run
	@$(BIN)/python tests/parts.py --length=ci $(PARTS)

test-jobs: java setup $(VENV)/.classes  ## run the tests of the jobs and of the command line
	@$(BIN)/python -m pytest -q $(BY_TWO) tests/jobs

test-pages: java setup $(VENV)/.classes  ## run the examples in the README, docs/ and docstrings
	@$(BIN)/python -m pytest -q $(BY_TWO) tests/pages

# CI runs jobs and pages on Sail, and here what Sail lacks something for.
.PHONY: test-without-sail
test-without-sail: java setup $(VENV)/.classes
	@$(BIN)/python -m pytest -q -m "(not_on_sail or classic_alone) and not night" tests/jobs tests/pages

# The systems that the dialects are compared with. Each has its own environment, because their requirements conflict.
# SYSTEMS chooses some of the environments: make parity SYSTEMS="trec ranx sklearn".
SYSTEMS ?= trec ranx sklearn lenskit lenskit-2025.8 torchmetrics rectools recommenders replay recbole obp ndeval beir mteb azure mlflow ragas haystack ppi lightgbm xgboost catboost published

# Install one system. Packages in its -alone.txt file are installed without their dependencies, which the tests do not need.
define install-a-package
	$(make-environment)
	@alone=tests/parity/requirements-$*-alone.txt; [ ! -e $$alone ] || \
	  $(UV) pip install --quiet --python $(@D)/bin/python --no-deps -r $$alone
	@touch $@
endef

# LensKit needs Python 3.12.5 or newer: one of pyenv's, else the one that uv finds or downloads.
.venv-parity-lenskit/.installed: private PYTHON := $(lastword 3.13 $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.13.*/bin/python))
# The packages of the published tables have no wheels for Python 3.12.
.venv-parity-published/.installed: private PYTHON := $(lastword 3.11 $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.11.*/bin/python))

.venv-parity-%/.installed: tests/parity/requirements-%.txt $(wildcard tests/parity/requirements-*-alone.txt) | $(UV)
	$(install-a-package)

test-browser: $(VENV)/.installed  ## open a report in Chromium and check how it looks
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v "$$name" >/dev/null 2>&1 && exit 0; done; \
	  echo "no Chromium was found: install it (Debian: apt-get install chromium) or set CHROMIUM to its path" >&2; exit 1
	@$(BIN)/python -m pytest -q tests/browser

parity: java setup $(SYSTEMS:%=.venv-parity-%/.installed)  ## compare the dialects with the real packages (all of them: some gigabytes)
	@$(BIN)/python -m pytest -q tests/parity --systems="$(SYSTEMS)"

# Another SEED gives other cases. A failure prints the seed that repeats it.
SEED ?= 1
CASES ?= 10000
fuzz: java setup  ## compare random nasty cases with the oracle
	@$(BIN)/python tests/fuzz.py --cases $(CASES) --seed $(SEED)

# `python -m tests.mutants.run --help` has the options: MUTANTS="--since HEAD~5" tries mutants of what has changed. What tests call is
# stored in build/, and --fresh looks again.
MUTANTS ?=
mutants: setup .venv-platform-sail/.installed  ## change the package in many places, one at a time, and say which changes no test notices
	@PYTHONPATH="$(CURDIR)/tests:$(CURDIR)" .venv-platform-sail/bin/python -m tests.mutants.run $(MUTANTS)

# The faults that PySpark alone shows.
mutants-pyspark: java setup $(VENV)/.classes
	@PYTHONPATH="$(CURDIR)/tests:$(CURDIR)" $(BIN)/python -m tests.mutants.run --platform classic --number 0 --fresh tests/pyspark

# The matrix of platforms: versions of Spark, classic or Connect, pandas 2 or 3. A Connect server runs in its own process.
# Each platform is a target, such as test-spark-3.5 or test-connect-4.3. It runs the tests of Spark, or those named by TESTS.
# Only the tests' process has the package on its path. A Connect server's Python gets it as a zip.
# Simulations compute no figure with an engine: they run once, in `make simulations`.
# The whole suite runs on ROWS: Sail, the oldest Spark, and Connect. CI runs what needs PySpark on the newest Spark. The other platforms run
# a smoke, which is what has most often differed: figures, SQL expressions, storage, and on the newest Connect a job.
ROWS := test-sail test-spark-3.5 test-connect-4.0
SMOKE_ROWS := test-spark-4.0 test-spark-4.3 test-spark-4.3-pandas-2 test-connect-3.5 test-connect-4.3-pandas-2
TESTS ?= tests tests/jobs tests/pages --ignore=tests/statistics/test_simulations_at_night.py
SMOKE := tests/spark/test_same_everywhere.py tests/spark/test_expressions.py tests/spark/test_columns.py tests/pyspark/test_storage.py
.PRECIOUS: .venv-platform-%/.installed .venv-benchmark-%/.installed

.venv-platform-%/.installed: tests/platforms/requirements-%.txt tests/platforms/tools.txt | $(UV)
	$(make-environment)
	@touch $@

test-spark-%: .venv-platform-%/.installed | java
	@PYTHONPATH="$(CURDIR)" .venv-platform-$*/bin/python -m pytest -q $(BY_TWO) --platform=classic $(TESTS)

# Sail, an engine that speaks the protocol of Spark Connect and needs no Java.
test-sail test-sail-newest: TESTS = tests/spark
test-sail: .venv-platform-sail/.installed  ## run the tests of Spark on Sail
	@PYTHONPATH="$(CURDIR)" $(<D)/bin/python -m pytest -q --platform=sail $(TESTS)

# A newer Sail than the tests know may lack something, or have something that the pinned one lacks.
.PHONY: test-sail-newest
test-sail-newest: .venv-platform-sail-newest/.installed
	@$(UV) pip install --quiet --upgrade --python $(<D)/bin/python pysail
	@SPARK_RANKEVAL_UNTESTED_ENGINE=allow PYTHONPATH="$(CURDIR)" $(<D)/bin/python -m pytest -q --platform=sail $(TESTS)

test-connect-%: .venv-platform-%/.installed | java
	@PYTHONPATH="$(CURDIR)" .venv-platform-$*/bin/python -m pytest -q $(BY_TWO) --platform=connect $(TESTS)

# The pip package of Spark 3.5 has a Connect client but no server, so its client is tested with the server of 4.0. The client does
# not close the file that it sends, so the warning about that is ignored.
test-connect-3.5: .venv-platform-3.5-connect/.installed .venv-platform-4.0/.installed | java
	@PYTHONPATH="$(CURDIR)" CONNECT_SERVER_PYTHON="$(CURDIR)/.venv-platform-4.0/bin/python" .venv-platform-3.5-connect/bin/python \
	  -m pytest -q $(BY_TWO) --platform=connect -W ignore::pytest.PytestUnraisableExceptionWarning $(TESTS)

.PHONY: smoke-connect smoke-oldest smoke-platforms
smoke-connect:  ## run a smoke of the newest Connect
	@$(MAKE) test-connect-4.3 BY_TWO= TESTS="$(SMOKE) tests/jobs/test_evaluate_job.py"

smoke-oldest:  ## run a smoke of the oldest Spark
	@$(MAKE) test-spark-3.5 BY_TWO= TESTS="$(SMOKE) tests/spark/features/test_long_table.py tests/worker tests/features"

smoke-platforms:
	@$(MAKE) $(SMOKE_ROWS) BY_TWO= TESTS="$(SMOKE)"

platforms: $(ROWS) smoke-connect smoke-platforms  ## run the whole suite on three platforms, and a smoke on six (an hour)

# PostgreSQL's programs and its driver for Java, where Debian puts them.
POSTGRES_BIN ?= $(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin)))
POSTGRES_JAR ?= /usr/share/java/postgresql.jar

test-database: java setup  ## read labels from PostgreSQL and write metrics into it, also under faults
	@[ -x "$(POSTGRES_BIN)/postgres" ] && [ -e "$(POSTGRES_JAR)" ] || { \
	  echo "PostgreSQL or its JDBC driver was not found: install them (Debian: apt-get install postgresql libpostgresql-jdbc-java) or set POSTGRES_BIN and POSTGRES_JAR" >&2; exit 1; }
	@POSTGRES_BIN="$(POSTGRES_BIN)" POSTGRES_JAR="$(POSTGRES_JAR)" $(BIN)/python -m pytest -q tests/database

# Everything: all lengths, platforms, systems, faults and pictures.
nightly:  ## run everything (some hours)
	@$(MAKE) lint test test-features simulations test-jobs test-pages
	@$(MAKE) test-cluster test-faults test-database fuzz test-speed package-check test-orchestrators
	@$(MAKE) test-browser test-notebook test-site
	@$(MAKE) parity
	@$(MAKE) platforms
	@$(MAKE) test-sail-newest
	@$(MAKE) mutants MUTANTS="--fresh --number 400 --seed $$(date +%j)"
	@$(MAKE) mutants-pyspark

.PHONY: simulations
simulations: setup .venv-platform-sail/.installed  ## simulate what intervals promise, and run all other tests of the length night
	@$(BIN)/python tests/parts.py --length=night $(PARTS)

test-cluster: java setup  ## run the package on a standalone cluster that does not have it installed
	@$(BIN)/python -m pytest -q tests/on_cluster

test-faults: java setup  ## break parts of a standalone cluster while jobs run
	@$(BIN)/python -m pytest -q tests/faults

conventions: setup  ## write docs/conventions.md, docs/tables.md and the schemas of configurations from the code
	@$(BIN)/python tools/write_conventions.py
	@$(BIN)/python tools/write_schemas.py

# The site has its own environment, because nothing else needs its packages. The API page is made from the source code.
.venv-docs/.installed: docs/requirements.txt | $(UV)
	$(make-environment)
	@touch $@

docs: conventions .venv-docs/.installed  ## build the site: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html (with search: python3 -m http.server -d build/site)"

notebook: java setup  ## run the notebooks of docs/ and store their outputs in them
	@$(BIN)/python tools/write_notebook.py

test-notebook: java setup  ## run the notebooks of docs/ and compare with their stored outputs
	@$(BIN)/python -m pytest -q tests/notebook

test-site: docs  ## open the pages of the site in Chromium and check them
	@$(BIN)/python -m pytest -q tests/site

lint: setup  ## check style, types, the direction of imports, prose and messages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports
	@$(BIN)/python tools/prose.py
	@$(BIN)/python tools/messages.py
	@$(BIN)/python tools/security.py

format: setup  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

benchmark: java setup  ## compare the time of an evaluation with the bare shuffle and Spark's evaluator
	@$(BIN)/python jobs/benchmark.py

# The systems that the evaluation is compared with, each in its own environment. RUNS chooses some runs of benchmarks/runs.py.
BESIDE := replay recommenders ranx trec

.venv-benchmark-%/.installed: benchmarks/requirements-%.txt tests/parity/requirements-%.txt | $(UV)
	$(install-a-package)

benchmark-quick: java setup  ## measure the most common calls, and their spread, on a fifth of the data (3 minutes)
	@$(BIN)/python jobs/benchmark.py --quick

benchmark-check: java setup $(BESIDE:%=.venv-benchmark-%/.installed)  ## measure everything that has a target, and compare (an hour or more)
	@mkdir -p build
	@$(BIN)/python jobs/benchmark.py --check $(if $(RUNS),--runs $(RUNS)) --json build/figures.json

figures: setup  ## copy the figures of benchmark-check into README.md and docs/evidence/speed.md
	@$(BIN)/python tools/write_performance.py build/figures.json

test-speed: java setup  ## compare the kernels with numpy, and measure the memory of a worker
	@$(BIN)/python -m pytest -q tests/speed

dist:  ## build dist/spark_rankeval.zip for spark-submit --py-files; it needs only Python
	@mkdir -p dist
	@$(PYTHON) -c 'import spark_rankeval; print(spark_rankeval.package_zip("dist"))'

package: | $(UV)  ## build the sdist, and from it the wheel, into dist/
	@rm -rf build/lib build/bdist.* dist/spark_rankeval-*
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 315532800) $(UV) build --quiet --python $(PYTHON) --out-dir dist
	@ls dist/spark_rankeval-*

package-check: java setup package  ## check both files, install them into empty environments, and run the package there
	@UV="$(UV)" $(BIN)/python -m pytest -q tests/package

test-orchestrators: setup package  ## run the examples of docs/submitting.md and docs/coming_from.md in environments of their own
	@UV="$(UV)" $(BIN)/python -m pytest -q tests/orchestrators

clean:  ## remove everything that was built, and all environments
	@rm -rf $(VENV) .venv-uv .venv-docs .venv-parity-* .venv-platform-* .venv-benchmark-* dist build output spark-warehouse metastore_db derby.log *.egg-info
