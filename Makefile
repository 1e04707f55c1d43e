# Everything sets itself up: a fresh machine needs make and Python 3.11 or newer.
# A C compiler is used when there is one (see setup.py).  `make help` lists the targets.

VENV    := .venv
BIN     := $(VENV)/bin
PYTHON  ?=#            the interpreter to make .venv with; found when not given
ARGS    ?=#            more arguments for the command that a target runs
SEEDS   ?= 1000#       how many seeds `make sim` tries
MINUTES ?= 60#         how long `make soak` goes on
SCHEDULES ?= 1000#     how many seeds `make sim-cluster` tries, from FIRST on
FIRST   ?= 0
ROUNDS  ?= 30#         how many faults `make chaos-cluster` makes
WORKERS ?= 3#          processes that `make test` divides the tests among; 0: none but its own

PIP             := $(BIN)/python -m pip --disable-pip-version-check
INSTALL         := $(PIP) install --quiet
INSTALL_VERBOSE := $(PIP) install --verbose

# The two ways the code runs.  One has src/ before site-packages; the other does not see src/.
INTERPRETED := PYTHONPATH=src
COMPILED    := env -u PYTHONPATH

# Where containers forbid it, each of hundreds of processes would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

PYTEST  := $(BIN)/python -P -m pytest
SOURCES := $(shell find src -type f -not -name '*.pyc' -not -path '*.egg-info/*' | LC_ALL=C sort)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run demo test check check-static check-format check-lint check-types check-imports check-rules \
	docs format generate bench sim sim-cluster planted-bugs soak chaos-cluster chaos-network chaos-rolling spark-chaos etcd \
	alerts strangers clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..." is handed on, as in: make test ARGS="-k lease -x"'

# --- use ---------------------------------------------------------------------------------------

run: $(VENV)/installed ## install, compile and start a broker with its data in ./data
	@echo "==> starting a broker, data in ./data (ctrl-c ends it)"
	@exec $(COMPILED) $(BIN)/goqueue server --data-dir data $(ARGS)

demo: $(VENV)/spark $(VENV)/installed $(if $(findstring s3,$(ARGS)),$(VENV)/demo) ## a data pipeline on Spark, killed and counted, in two minutes
	@echo "==> orders through a declared pipeline"
	@$(COMPILED) $(BIN)/python -m demo $(ARGS)

# --- check and test ----------------------------------------------------------------------------

# Who runs what is in tests/division.py.  Tests of real processes wait half of their time, for disks
# and for each other: two cores are busy with three of them.
PARALLEL := -n $(WORKERS) --dist loadscope --no-loadscope-reorder

# Only the hot modules run in two ways: interpreted, their own tests do, and those of the modules that
# call them.  What is built on those is the same code in both runs.
INTERPRETED_TESTS := $(wildcard tests/unit/model tests/unit/spark/columns tests/unit/spark/values/test_avro.py \
	tests/unit/log/test_compaction.py tests/unit/queue/test_dead_letter.py \
	tests/unit/broker/messages tests/unit/broker/storage/test_batch_validation.py \
	tests/unit/broker/queues/test_partition_reader.py tests/unit/broker/dlq/test_browse.py)

# The summary of the fuller run comes last.
test: $(VENV)/dev $(VENV)/installed ## run the tests: the hot modules' interpreted, then all compiled
	@echo "==> tests 1/2, interpreted (src/): $(INTERPRETED_TESTS)"
	@$(INTERPRETED) $(PYTEST) $(PARALLEL) $(INTERPRETED_TESTS) $(ARGS) || \
		[ $$? -eq 5 ] # 5: ARGS chose no test here, but may below
	@echo "==> tests 2/2, compiled (as installed): $(wildcard tests/*/)"
	@$(COMPILED) $(PYTEST) $(PARALLEL) tests $(ARGS)

check: check-static check-rules ## format, lint, types, imports, rules (make -k check: all of them)

check-static: check-format check-lint check-types check-imports # all that runs no test

check-format: $(VENV)/dev
	@echo "==> format"
	@$(BIN)/ruff format --check --diff --quiet . || { echo "make format puts this right" >&2; exit 1; }

check-lint: $(VENV)/dev
	@echo "==> lint"
	@$(BIN)/ruff check .

check-types: $(VENV)/dev
	@echo "==> types"
	@$(BIN)/mypy

check-imports: $(VENV)/dev
	@echo "==> imports"
	@$(INTERPRETED) $(BIN)/lint-imports --no-logo

check-rules: $(VENV)/dev
	@echo "==> rules of our own"
	@$(INTERPRETED) $(PYTEST) --quiet tests/unit/test_project_rules.py tests/unit/test_project_words.py

docs: $(VENV)/dev ## write docs/reference and deploy/grafana from the code
	@$(INTERPRETED) $(BIN)/python -m tools.reference
	@$(INTERPRETED) $(BIN)/python -m tools.grafana

format: $(VENV)/dev ## format the code and fix what lint can fix
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

generate: $(VENV)/dev ## write the synchronous client from the asynchronous one
	@$(BIN)/python -m tools.sync_client

# --- the long ones -----------------------------------------------------------------------------

bench: $(VENV)/dev $(VENV)/installed ## measure the broker against its budget and its peers
	@test -e bench/__main__.py || { echo "there is no bench/ in this tree" >&2; exit 1; }
	@echo "==> benchmarks, compiled"
	@$(COMPILED) $(BIN)/python -m bench $(ARGS)

sim: $(VENV)/dev $(VENV)/installed ## simulate clusters with many seeds (SEEDS=1000)
	@test -d tests/sim || { echo "there is no tests/sim in this tree" >&2; exit 1; }
	@echo "==> simulation, compiled, $(SEEDS) seeds"
	@GOQUEUE_SIM_SEEDS=$(SEEDS) HYPOTHESIS_PROFILE=thorough \
		$(COMPILED) $(PYTEST) -m "" --timeout 3600 tests/sim $(ARGS)

sim-cluster: $(VENV)/dev $(VENV)/installed ## clusters of whole brokers under faults (SCHEDULES=1000 FIRST=0)
	@echo "==> clusters in the simulator, compiled, $(SCHEDULES) schedules from seed $(FIRST)"
	@$(COMPILED) PYTHONPATH=. $(BIN)/python -P -m tests.sim.cluster.campaign \
		--first $(FIRST) --schedules $(SCHEDULES) $(ARGS)

planted-bugs: $(VENV)/dev $(VENV)/installed ## the design's bugs 8 to 28, planted one by one: each is found
	@echo "==> planted bugs of the cluster, compiled, some minutes"
	@$(COMPILED) $(PYTEST) -v -m "" --timeout 3600 -k bug tests/sim/test_replication_bugs.py \
		tests/sim/test_replication_stories.py tests/sim/cluster/test_planted_bugs.py $(ARGS)

soak: $(VENV)/dev $(VENV)/installed ## kill and starve real brokers for a while (MINUTES=60)
	@test -d tests/chaos || { echo "there is no tests/chaos in this tree" >&2; exit 1; }
	@set -e; end=$$(($$(date +%s) + $(MINUTES) * 60)); round=1; \
	while [ $$(date +%s) -lt $$end ]; do \
		echo "==> soak, compiled, round $$round, $$(((end - $$(date +%s)) / 60)) minutes left"; \
		$(COMPILED) $(PYTEST) -m "" --timeout 3600 tests/chaos $(ARGS); \
		round=$$((round + 1)); \
	done

chaos-cluster: $(VENV)/dev $(VENV)/installed ## kill and stop nodes of a cluster under load (ROUNDS=30)
	@echo "==> a cluster of three, compiled, $(ROUNDS) faults, then the same on etcd"
	@ROUNDS=$(ROUNDS) $(COMPILED) $(PYTEST) -s -m "" --timeout 7200 tests/chaos/test_campaign.py -k all_faults $(ARGS)

chaos-network: $(VENV)/dev $(VENV)/installed ## cut the cables between nodes (root; ROUNDS=30)
	@echo "==> three nodes in network namespaces, compiled, $(ROUNDS) faults"
	@ROUNDS=$(ROUNDS) $(COMPILED) $(PYTEST) -s -m "" --timeout 7200 tests/chaos/test_network.py $(ARGS)

chaos-rolling: $(VENV)/dev $(VENV)/installed ## restart nodes under four client libraries (ROUNDS=30)
	@echo "==> restarts in good order, compiled, $(ROUNDS) times; then full and slow disks"
	@ROUNDS=$(ROUNDS) $(COMPILED) $(PYTEST) -s -m "" --timeout 7200 tests/chaos/test_rolling_restarts.py \
		tests/chaos/test_cluster_disks.py $(ARGS)

spark-chaos: $(VENV)/dev $(VENV)/installed ## kill Spark's drivers, executors and brokers: exactly once?
	@echo "==> Spark under fire, compiled (half an hour)"
	@$(COMPILED) $(PYTEST) -m "" --timeout 3600 tests/spark/crashes tests/spark/lake_crashes $(ARGS)

etcd: $(VENV)/dev $(VENV)/installed ## metadata in etcd: contract, access, killed and stopped members
	@echo "==> etcd, compiled (a minute; GOQUEUE_TEST_ETCD=/path/to/etcd tries another one)"
	@$(COMPILED) $(PYTEST) -m "" tests/conformance/test_etcd.py tests/conformance/test_etcd_access.py \
		tests/conformance/test_server_on_etcd.py tests/conformance/test_nodes_on_etcd.py \
		tests/chaos/test_etcd_members.py $(ARGS)

alerts: $(VENV)/dev ## promtool on the alert rules and their cases (fetched the first time)
	@$(BIN)/python -m tools.prometheus promtool check rules deploy/prometheus/alerts.yml
	@$(BIN)/python -m tools.prometheus promtool test rules deploy/prometheus/alerts_test.yml

strangers: $(VENV)/dev $(VENV)/installed ## run franz-go's, librdkafka's and kafka-python's own tests
	@echo "==> strangers' test-suites, compiled (half an hour; fetched the first time)"
	@$(COMPILED) $(BIN)/python -m strangers $(ARGS)

# --- set up ------------------------------------------------------------------------------------

# The requirements in pyproject.toml, one a line: to build and run the package, or of one extra.
REQUIREMENTS := $(BIN)/python -c 'import sys, tomllib; \
	file = tomllib.load(open("pyproject.toml", "rb")); \
	project = file["project"]; \
	extra = sys.argv[1:] and project["optional-dependencies"][sys.argv[1]]; \
	print(*(extra or file["build-system"]["requires"] + project["dependencies"]), sep="\n")'

$(BIN)/python:
	@found='$(strip $(PYTHON))'; \
	for each in python3.11 python3 python3.14 python3.13 python3.12 python; do \
		[ -z "$$found" ] || break; \
		if $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
		then found=$$each; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "GoQueue needs Python 3.11 or newer, and none was found." >&2; \
		echo "Install one, or say where it is: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi; \
	echo "==> making $(VENV) with $$found ($$($$found --version))"; \
	$$found -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "$$found cannot make a virtual environment (on Debian: apt install python3-venv)" >&2; \
		exit 1; \
	}

$(VENV)/runtime: pyproject.toml | $(BIN)/python
	@echo "==> installing what GoQueue runs on (the first time may take a minute)"
	@$(REQUIREMENTS) > $@.txt
	@$(INSTALL) -r $@.txt
	@touch $@

$(VENV)/dev: pyproject.toml $(VENV)/runtime
	@echo "==> installing what tests and checks need (the first time may take a minute)"
	@$(REQUIREMENTS) dev > $@.txt
	@$(INSTALL) --no-compile -r $(VENV)/runtime.txt -r $@.txt # most of it is never imported
	@touch $@

$(VENV)/spark: pyproject.toml $(VENV)/runtime
	@echo "==> installing Spark and what goes with it (half a gigabyte, the first time)"
	@$(REQUIREMENTS) spark > $@.txt
	@$(INSTALL) -r $(VENV)/runtime.txt -r $@.txt
	@touch $@

$(VENV)/demo: pyproject.toml $(VENV)/runtime
	@echo "==> installing an object store to show the lake in"
	@$(REQUIREMENTS) demo > $@.txt
	@$(INSTALL) -r $(VENV)/runtime.txt -r $@.txt
	@touch $@

# What an install depends on beside the dates of files: which there are, and whether to compile.
$(VENV)/sources: FORCE | $(BIN)/python
	@echo "compile=$(GOQUEUE_COMPILE) $(SOURCES)" | cmp -s - $@ || \
		echo "compile=$(GOQUEUE_COMPILE) $(SOURCES)" > $@

# build/ keeps the compiled objects, so that only what changed is compiled again.  Its Python
# files go first: setuptools would pack one that is no longer in src/.  The stamp bears the time
# of the start, so that a file saved meanwhile is newer.
$(VENV)/installed: $(SOURCES) $(VENV)/sources pyproject.toml setup.py | $(VENV)/runtime
	@echo "==> installing goqueue, with its hot modules compiled (some ten seconds)"
	@if [ setup.py -nt $@ ]; then rm -rf build; fi
	@if [ -d build ]; then find build -name '*.py' -delete; fi
	@touch $@.start
	@$(INSTALL_VERBOSE) --no-deps --no-build-isolation --force-reinstall . > $@.log 2>&1 \
		|| { cat $@.log; exit 1; }
	@sed -n 's/^ *goqueue: \(.*stays interpreted\)/    \1/p' $@.log | sort -u
	@$(COMPILED) $(BIN)/python -P -c 'from goqueue._version import compiled_modules; \
		print("    compiled:", ", ".join(compiled_modules()) or "nothing")'
	@mv $@.start $@

clean: ## remove everything that make made, except ./data
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
