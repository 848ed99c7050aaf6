# The project's commands. Each does all the set-up that it needs; a fresh machine has Python 3.11+ and Java 17+.
.DEFAULT_GOAL := help
.PHONY: help setup hooks demo test test-jobs test-pages test-browser test-cluster test-faults mutants parity fuzz platforms nightly lint format \
  conventions docs notebook test-notebook test-site benchmark benchmark-quick benchmark-check figures test-speed dist clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

# Compiled modules are kept: to compile all tests anew takes each process of a run some seconds.
unexport PYTHONDONTWRITEBYTECODE

# uv makes the environments: it keeps what it downloaded and built, so that Spark, which several have, is built once.
UV := $(or $(shell command -v uv),.venv-uv/bin/uv)

.venv-uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer is needed ('$(PYTHON)' is older or missing): install it, or say make PYTHON=python3.12" >&2; exit 1; }
	@echo "installing uv, which makes the environments, into .venv-uv"
	@$(PYTHON) -m venv .venv-uv
	@.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9

# The environment that the target's stamp is in, with what the first prerequisite lists and whatever is named besides.
define make-environment
	@echo "installing into $(@D) (the first time this takes up to a minute)"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(@D)
	@$(UV) pip install --quiet --python $(@D)/bin/python -r $< $(1)
endef

# The stamp is newer than what it was installed from, or the install runs again.
$(VENV)/.installed: requirements-dev.txt pyproject.toml | $(UV)
	$(call make-environment,-e '.[spark]')
	@touch $@

# Spark's classes as its JVMs load them, for the tests that start many: tests/class_archive.py.
$(VENV)/.classes: $(VENV)/.installed tests/class_archive.py | java
	@echo "reading Spark's classes into $(@D)/spark-classes.jsa"
	@PYTHONPATH="$(CURDIR)/tests:$(CURDIR)" $(@D)/bin/python tests/class_archive.py >/dev/null 2>&1 || \
	  echo "this Java keeps no archive of classes: the tests start without" >&2
	@touch $@

.PHONY: java
java:
	@command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" >/dev/null 2>&1 || \
	  { echo "Java 17 or newer is needed and no 'java' was found: install it (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME" >&2; exit 1; }

setup: java $(VENV)/.installed  ## create the environment

hooks: setup  ## check what `make lint` checks before every commit
	@$(BIN)/pre-commit install

demo: setup  ## train and evaluate two models on real ratings
	@echo "two models on real ratings, trained and evaluated: some 30 seconds"
	@$(BIN)/python jobs/quickstart.py

# Two at a time, each with a Spark of its own: a test file waits for Spark as long as it computes.
BY_TWO := --numprocesses=2 --dist=loadfile --no-loadscope-reorder

test: setup $(VENV)/.classes  ## run the tests
	@$(BIN)/python -m pytest -q $(BY_TWO)

test-jobs: setup $(VENV)/.classes  ## run the tests of the jobs and of the command
	@$(BIN)/python -m pytest -q $(BY_TWO) tests/jobs

test-pages: setup $(VENV)/.classes  ## run the examples of the README and of docs/
	@$(BIN)/python -m pytest -q tests/pages

# The packages that the dialects are compared with: their versions exclude one another, so each has an environment.
# SYSTEMS chooses among them, by environment: make parity SYSTEMS="trec ranx sklearn".
SYSTEMS ?= trec ranx sklearn lenskit torchmetrics rectools recommenders replay recbole obp

# One of them into an environment; what it does not need of its dependencies is left out.
define install-a-package
	$(make-environment)
	@alone=tests/parity/requirements-$*-alone.txt; [ ! -e $$alone ] || \
	  $(UV) pip install --quiet --python $(@D)/bin/python --no-deps -r $$alone
	@touch $@
endef

.venv-parity-%/.installed: tests/parity/requirements-%.txt $(wildcard tests/parity/requirements-*-alone.txt) | $(UV)
	$(install-a-package)

test-browser: $(VENV)/.installed  ## look at a report with a real Chromium
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v "$$name" >/dev/null 2>&1 && exit 0; done; \
	  echo "no Chromium was found: install it (Debian: apt-get install chromium) or set CHROMIUM to its path" >&2; exit 1
	@$(BIN)/python -m pytest -q tests/browser

parity: setup $(SYSTEMS:%=.venv-parity-%/.installed)  ## run the real packages beside the dialects (all: some gigabytes)
	@$(BIN)/python -m pytest -q tests/parity --systems="$(SYSTEMS)"

# Another SEED is another ten thousand cases; a failure says which seed repeats it.
SEED ?= 1
CASES ?= 10000
fuzz: setup  ## run random nasty cases against the oracle
	@$(BIN)/python tests/fuzz.py --cases $(CASES) --seed $(SEED)

# FAULTS="quantile" is those with a word in what they are, their file or their tests; "spark" and "no spark" are parts, too.
# FAULTS_RUN="--processes 1 --all-tests" runs one at a time, and the suite of `make test` for each: --help tells more.
FAULTS ?=
mutants: setup  ## put faults into the package, and say which no test notices
	@$(BIN)/python tests/mutants/run.py --faults "$(FAULTS)" $(FAULTS_RUN)

# Where Spark differs: its versions, classic or Connect to a server in its own process, pandas 2 and 3. A row of the matrix is a
# target, such as test-spark-3.5 or test-connect-4.3, and runs the whole suite, or TESTS of it; docs/platforms.md lists them.
# The package is on the path of the tests' process alone: a Connect server's Python gets it as a zip.
ROWS := test-spark-3.5 test-spark-4.0 test-spark-4.3 test-spark-4.3-pandas-2 test-connect-4.0 test-connect-4.3 test-connect-4.3-pandas-2
TESTS ?= tests tests/jobs tests/pages
# The tests of what ever differed between rows (docs/platforms.md has the list), and some of every front door: CI runs them on the
# newest Connect and the oldest Spark, and `make platforms` runs all.
DIFFERING := @tests/platforms/differing.txt
DIFFERING_JOBS := $(addprefix tests/jobs/test_,$(addsuffix .py,evaluate_job compare_job looking_back sources))
.PRECIOUS: .venv-platform-%/.installed .venv-benchmark-%/.installed

.venv-platform-%/.installed: tests/platforms/requirements-%.txt tests/platforms/tools.txt | $(UV)
	$(make-environment)
	@touch $@

test-spark-%: .venv-platform-%/.installed | java
	@PYTHONPATH="$(CURDIR)" .venv-platform-$*/bin/python -m pytest -q $(BY_TWO) --platform=classic $(TESTS)

test-connect-%: .venv-platform-%/.installed | java
	@PYTHONPATH="$(CURDIR)" .venv-platform-$*/bin/python -m pytest -q $(BY_TWO) --platform=connect $(TESTS)

# The pip package of 3.5 has a client of Connect and no server, so that its client meets the server of 4.0; it leaves the file that it
# sends open.
test-connect-3.5: .venv-platform-3.5-connect/.installed .venv-platform-4.0/.installed | java
	@PYTHONPATH="$(CURDIR)" CONNECT_SERVER_PYTHON="$(CURDIR)/.venv-platform-4.0/bin/python" .venv-platform-3.5-connect/bin/python \
	  -m pytest -q $(BY_TWO) --platform=connect -W ignore::pytest.PytestUnraisableExceptionWarning $(TESTS)

.PHONY: platforms-check
platforms-check:  ## run on the newest Connect and on the oldest Spark what ever differed between platforms
	@echo "left to 'make platforms': what tests/platforms/differing.txt does not name; of tests/jobs all on 3.5, and on Connect"
	@echo "  $(filter-out $(notdir $(DIFFERING_JOBS)),$(notdir $(wildcard tests/jobs/test_*.py)))"
	@$(MAKE) test-connect-4.3 TESTS="$(DIFFERING) $(DIFFERING_JOBS)"
	@$(MAKE) test-spark-3.5 TESTS="$(DIFFERING)"

platforms: $(ROWS)  ## run the whole suite on every Spark of the matrix (an hour and more)

# What a day leaves out, too: every test at full length, on every row of the matrix, with every package, fault and picture.
nightly: export FULL_LENGTH = 1
nightly:  ## run everything at full length (some hours)
	@$(MAKE) test test-jobs test-pages lint
	@$(MAKE) test-cluster test-faults fuzz test-speed
	@$(MAKE) test-browser test-notebook test-site
	@$(MAKE) parity
	@$(MAKE) platforms
	@$(MAKE) mutants

test-cluster: setup  ## send the package to a standalone cluster that lacks it
	@$(BIN)/python -m pytest -q tests/on_cluster

test-faults: setup  ## break a standalone cluster under running jobs
	@$(BIN)/python -m pytest -q tests/faults

conventions: setup  ## write docs/conventions.md from the registry
	@$(BIN)/python tools/write_conventions.py

# The site needs packages that nothing else needs, in an environment of its own; what it says of the API it reads from the source.
.venv-docs/.installed: docs/requirements.txt | $(UV)
	$(make-environment)
	@touch $@

docs: conventions .venv-docs/.installed  ## build the site, build/site/index.html
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html (with search: python3 -m http.server -d build/site)"

notebook: setup  ## run docs/quickstart.ipynb and write what it shows into it
	@$(BIN)/python tools/write_notebook.py

test-notebook: setup  ## run docs/quickstart.ipynb and compare with what it shows
	@$(BIN)/python -m pytest -q tests/notebook

test-site: docs  ## open the pages of the site with a real Chromium
	@$(BIN)/python -m pytest -q tests/site

lint: setup  ## check style, types, the direction of imports and the prose
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports
	@$(BIN)/python tools/prose.py

format: setup  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

benchmark: setup  ## time the evaluation beside the bare shuffle and Spark's evaluator
	@$(BIN)/python jobs/benchmark.py

# What the evaluation is compared with, each in an environment of its own. RUNS chooses among the runs of benchmarks/runs.py.
BESIDE := replay recommenders ranx trec

.venv-benchmark-%/.installed: benchmarks/requirements-%.txt tests/parity/requirements-%.txt | $(UV)
	$(install-a-package)

benchmark-quick: setup  ## say within what spread the flagship rows lie, on a fifth of the data (3 minutes)
	@$(BIN)/python jobs/benchmark.py --quick

benchmark-check: setup $(BESIDE:%=.venv-benchmark-%/.installed)  ## measure all that the speed is held to, and compare (an hour and more)
	@mkdir -p build
	@$(BIN)/python jobs/benchmark.py --check $(if $(RUNS),--runs $(RUNS)) --json build/figures.json

figures: setup  ## take what benchmark-check measured over into README.md and docs/evidence/
	@$(BIN)/python tools/write_performance.py build/figures.json

test-speed: setup  ## compare the kernels with numpy, and look at the memory of a worker
	@$(BIN)/python -m pytest -q tests/speed

dist: $(VENV)/.installed  ## build dist/spark_rankeval.zip, for spark-submit --py-files
	@mkdir -p dist
	@$(BIN)/python -c 'import spark_rankeval; print(spark_rankeval.package_zip("dist"))'

clean:  ## remove what was built, and the environment
	@rm -rf $(VENV) .venv-uv .venv-docs .venv-parity-* .venv-platform-* .venv-benchmark-* dist build output spark-warehouse metastore_db derby.log *.egg-info
