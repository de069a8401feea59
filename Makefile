# make run   install, pull the model, show what it does
# make test  lint, types, import walls, all tests
# make coverage  the same, and which lines no test reached
# make test-hosts  real agent clients, installed with npm
# Both work again offline once they have run.

PYTHON ?= python3
BIN := .venv/bin
# A constraints file from outside would be a second opinion on versions.
unexport PIP_CONSTRAINT
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without bytecode every process compiles all it imports: half of what a short command costs.
unexport PYTHONDONTWRITEBYTECODE
# Every file an install downloads is checked against the hash in the lock, build tools included;
# the project itself is then installed without asking for anything else.
LOCKED := --quiet --require-hashes --requirement
EDITABLE := --quiet --no-deps --no-build-isolation --editable .

.PHONY: run test coverage test-hosts lint check format soak mutations promises bench bench-jedi bench-peers lock dist test-readme lint-workflows clean

run: .venv/run.stamp
	$(BIN)/zapomni models pull
	$(BIN)/zapomni demo

# The page on a throw-away home with content: make ui-demo; pictures: python -m tools.screenshots
ui-demo: .venv/run.stamp
	$(BIN)/zapomni models pull
	$(BIN)/python -m tools.ui_demo

test: .venv/dev.stamp
	$(BIN)/zapomni models pull
	ZAPOMNI_MODELS_DIR=.venv/models $(BIN)/zapomni models pull multilingual
	-ZAPOMNI_MODELS_DIR=.venv/models $(BIN)/zapomni models pull multilingual-large
	$(MAKE) --no-print-directory check

# One process more than processors: tests that wait for others leave room.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 1))')

# Every thread that ends leaves a heap of its own: two arenas instead of sixteen halve the memory.
# In the order of folders: files of a few long tests (tests/crash) do not come last, on one process.
check: lint
	MALLOC_ARENA_MAX=2 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile \
		--no-loadscope-reorder $(TESTS)

# The same tests, traced: about twice the time. Fails below the share that pyproject.toml names.
coverage: .venv/dev.stamp
	$(MAKE) --no-print-directory check TESTS="--cov --cov-report=term"

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell *.md docs .github src/zapomni_cli src/zapomni_mcp src/zapomni_web

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The long versions of tests that have a short one in `make test`.
soak: .venv/dev.stamp
	SOAK_FIGURES=$(CURDIR)/docs/soak.json \
		KILL_CYCLES=2000 SERVER_KILL_CYCLES=50 SHARED_KILLS=200 FUZZ_EXAMPLES=50000 FUZZ_QUERIES=100000 \
		MUTATED_EVENTS=10000 SECRETS_PER_FORMAT=50 SECRETS_PER_CONTEXT=30 \
		ANY_DOCUMENTS=20000 \
		HOSTILE_SIZE=100000 LONG_LINE=96000 LONG_LINE_SENTENCES=62500 LONG_TEXTS=5000000 \
		COPY_MEMORIES=5000 STATE_EXAMPLES=300 DAMAGED_FILES=200 POWER_POINTS=5000 \
		CROWD_PROCESSES=16 CROWD_ADDS=100 MANY_FILES=10000 SYNC_ROUNDS=300 \
		$(BIN)/python -m pytest tests/crash tests/security/test_record_fuzz.py \
		tests/security/test_record_mutations.py \
		tests/security/test_search_fuzz.py tests/e2e/test_db_copy.py tests/e2e/test_repair.py \
		tests/falkordb/test_engines_agree.py tests/falkordb/test_graphs_agree.py \
		tests/security/test_redaction_corpus.py tests/codebase/test_code_parse.py \
		tests/unit/test_entity_rules.py tests/unit/test_host_setup.py tests/contract/test_memories.py \
		tests/workflows/test_add_memory.py tests/workflows/test_index_codebase.py \
		tests/workflows/test_sync.py -s
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile=soak
	$(BIN)/python -m tools.promises

# Real agent clients, offline against a model on loopback: about 2 GB, installed once.
# The lock has the hashes for Linux on x64. `npm ci` would refuse it for the builds for other systems
# that it lacks; `npm install` takes those at the versions that the clients name.
test-hosts: .venv/dev.stamp tests/hosts/node_modules/.stamp
	$(BIN)/zapomni models pull
	AGENT_CLIENTS=tests/hosts/node_modules/.bin $(BIN)/python -m pytest tests/hosts -rs $(HOSTS) \
		--numprocesses auto --maxprocesses 4 --dist loadgroup

tests/hosts/node_modules/.stamp: tests/hosts/package.json tests/hosts/package-lock.json
	npm install --prefix tests/hosts --no-save --no-progress --loglevel=error
	touch $@

# Break every promise of tests/promises.toml on purpose, in a copy: its tests have to notice.
mutations: .venv/dev.stamp
	$(BIN)/python -m tools.mutate $(PROMISES)

promises: .venv/dev.stamp
	$(BIN)/python -m tools.promises

bench: .venv/dev.stamp
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.shared_process
	$(BIN)/python -m benchmarks.first_search
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.search
	$(BIN)/python -m benchmarks.facts
	$(BIN)/python -m benchmarks.record
	$(BIN)/python -m benchmarks.observations
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.page
	$(BIN)/python -m benchmarks.graph
	$(BIN)/python -m benchmarks.graph --walk
	$(BIN)/python -m benchmarks.falkordb
	$(if $(DATA),$(BIN)/python -m benchmarks.retrieval $(foreach file,$(DATA),--data $(file)))

# What people use instead, in an environment of its own: make bench-peers; make bench DATA=FILE
bench-peers: benchmarks/.peers/stamp

# An independent analysis of calls: make bench-jedi; python -m benchmarks.callgraph
bench-jedi: benchmarks/.jedi/stamp

benchmarks/.jedi/stamp: benchmarks/jedi.txt
	$(PYTHON) -m venv benchmarks/.jedi
	benchmarks/.jedi/bin/pip install --quiet --requirement benchmarks/jedi.txt
	touch $@

benchmarks/.peers/stamp: benchmarks/peers.txt
	$(PYTHON) -m venv benchmarks/.peers
	benchmarks/.peers/bin/pip install --quiet --requirement benchmarks/peers.txt
	touch $@

# A newcomer: a fresh clone, a fresh HOME, no model; README from top to bottom on every Python that is
# here and on both engines, each step timed. Then every page of docs in this environment.
test-readme: .venv/dev.stamp .venv/uv/stamp
	$(BIN)/python -m tools.readme --newcomer .venv/uv/bin/uv
	$(BIN)/zapomni models pull
	$(BIN)/python -m tools.readme

# Wheel, sdist and SBOM, tried on a machine that has nothing: see tools/dist.py.
dist: .venv/dev.stamp
	$(BIN)/python -m tools.dist

# Workflows and issue forms against their published schemas and for known holes, in a separate environment.
CHECK := .venv/workflows/bin/check-jsonschema --builtin-schema
lint-workflows: .venv/workflows/stamp
	$(CHECK) vendor.github-workflows .github/workflows/*.yml
	$(CHECK) custom.github-workflows-require-timeout .github/workflows/*.yml
	$(CHECK) vendor.github-issue-forms $(filter-out %config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(CHECK) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	.venv/workflows/bin/zizmor --offline --quiet .github

.venv/workflows/stamp:
	$(PYTHON) -m venv .venv/workflows
	.venv/workflows/bin/pip install --quiet check-jsonschema zizmor
	touch $@

# Write requirements/*.txt from pyproject.toml. Versions stay as they are while they fit:
# make lock UPGRADE=1 takes the newest.
lock: .venv/uv/stamp
	$(COMPILE) --extra dev --output-file requirements/dev.txt
	$(COMPILE) --constraints requirements/dev.txt --output-file requirements/run.txt

COMPILE = .venv/uv/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-strip-extras --no-annotate --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) \
	pyproject.toml requirements/build.in

.venv/uv/stamp:
	$(PYTHON) -m venv .venv/uv
	.venv/uv/bin/pip install --quiet uv==0.13.7
	touch $@

clean:
	rm -rf .venv

.venv/run.stamp: .venv/bin/pip pyproject.toml requirements/run.txt
	$(BIN)/pip install $(LOCKED) requirements/run.txt
	$(BIN)/pip install $(EDITABLE)
	touch $@

.venv/dev.stamp: .venv/bin/pip pyproject.toml requirements/dev.txt
	$(BIN)/pip install $(LOCKED) requirements/dev.txt
	$(BIN)/pip install $(EDITABLE)
	touch $@ .venv/run.stamp

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Zapomni needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
