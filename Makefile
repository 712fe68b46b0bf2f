# `make help` lists the targets. Each one creates .venv and installs its dependencies on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The demo needs few packages, all tests need many (JAX, Ray, a browser driver, …). Each set is installed on demand.
DEMO := $(VENV)/.demo-ready
TEST := $(VENV)/.test-ready
DEV := $(VENV)/.dev-ready
RIVALS := $(VENV)/.rivals-ready
SERVICE := $(VENV)/.service-ready
DOCS := $(VENV)/.docs-ready

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# One process per core runs the tests: further threads of BLAS in each would only compete for the cores.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# A library without a prebuilt wheel for this platform must not prevent tests and measurements of glcb.
INSTALL_RIVALS := $(PIP_INSTALL) --only-binary :all: --editable '.[rivals]' \
	|| echo "==> some libraries that glcb is compared with cannot be installed here and are skipped"
BENCHMARK := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m

.PHONY: help demo serve-demo docs test test-all kernels lint speed load soak client figures notebooks tables clean

help:
	@echo "make demo        compare policies on three small tasks and draw the results"
	@echo "make serve-demo  serve three experiments with simulated visitors on http://127.0.0.1:8000"
	@echo "make docs        build the documentation into site/"
	@echo "make test        check style and types, run the fast tests (5 minutes on two cores, with installation)"
	@echo "make test-all    the same, plus tests with all extras, servers, browsers and databases; CI runs this"
	@echo "make lint        check style and types only"
	@echo "make speed       measure time and memory, compared with other libraries (minutes, on an idle machine)"
	@echo "make load        measure throughput and latency of glcb serve on SQLite and PostgreSQL (minutes)"
	@echo "make soak        long-running tests: a million operations, hundreds of crashes, outages, faults, fuzzing (hours)"
	@echo "make client      generate the synchronous client from the asynchronous one"
	@echo "make figures     take the dashboard screenshots in docs/images (needs Chromium)"
	@echo "make notebooks   run docs/notebooks and store their outputs"
	@echo "make tables      update the tables in docs/results.md from results/"
	@echo "make clean       remove all generated files"

$(BIN)/python:
	@echo "==> creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "glcb requires Python 3.11 or later: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	@echo "==> installing glcb (about a minute)"
	@$(PIP_INSTALL) --editable '.[report]'
	@touch $@

$(TEST): pyproject.toml | $(BIN)/python
	@echo "==> installing glcb with the service, the report and the test tools (about a minute)"
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@

$(DEV): pyproject.toml $(TEST)
	@echo "==> installing everything that any test needs (a few minutes)"
	@$(PIP_INSTALL) --editable '.[dev]'
	@$(INSTALL_RIVALS)
	@touch $@

$(RIVALS): pyproject.toml $(DEMO)
	@echo "==> installing the libraries that glcb is compared with"
	@$(INSTALL_RIVALS)
	@touch $@

$(DOCS): pyproject.toml | $(BIN)/python
	@echo "==> installing the documentation dependencies"
	@$(PIP_INSTALL) --editable '.[service,docs]'
	@touch $@

$(SERVICE): pyproject.toml $(DEMO)
	@echo "==> installing the dependencies of glcb serve"
	@$(PIP_INSTALL) --editable '.[report,service]'
	@touch $@

demo: $(DEMO)
	@echo "==> glcb demo (the first run compiles the kernels, which takes a few seconds)"
	@$(BIN)/glcb demo
	@echo "==> next: source $(BIN)/activate, then glcb --help"

serve-demo: $(SERVICE)
	@echo "==> glcb serve --demo: three experiments with simulated visitors; press Ctrl-C to stop"
	@$(BIN)/glcb serve --demo

docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "==> site/index.html"

lint: $(TEST)
	@echo "==> style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> types"
	@$(BIN)/mypy

# Otherwise, every process that runs tests would compile the same kernels.
kernels: $(TEST)
	@echo "==> kernels"
	@$(BIN)/glcb warm

test: lint kernels
	@echo "==> tests"
	@$(PYTEST) -m "not live"

test-all: $(DEV)
	@$(MAKE) lint kernels
	@echo "==> tests, including servers, browsers and databases"
	@$(PYTEST)

speed: $(RIVALS)
	@$(BENCHMARK) benchmarks.speed

load: $(SERVICE)
	@$(BENCHMARK) benchmarks.load

soak: $(DEV)
	@$(BENCHMARK) benchmarks.soak
	@$(BENCHMARK) benchmarks.crash_test
	@$(BENCHMARK) benchmarks.workers
	@$(BENCHMARK) benchmarks.outage
	@$(BENCHMARK) benchmarks.starts
	@$(BENCHMARK) benchmarks.strangers
	@$(BENCHMARK) benchmarks.faults
	@$(BENCHMARK) benchmarks.fuzz
	@$(BENCHMARK) benchmarks.walks
	@$(BENCHMARK) benchmarks.walks --walks 1000 --processors host generic
	@$(BENCHMARK) benchmarks.recovery
	@$(BENCHMARK) benchmarks.same_bits
	@$(BENCHMARK) benchmarks.inverses
	@$(BENCHMARK) benchmarks.propensities
	@$(BENCHMARK) benchmarks.endurance
	@$(BENCHMARK) benchmarks.dashboard_load
	@$(BENCHMARK) benchmarks.container
	@$(BENCHMARK) benchmarks.evaluation obp

client: $(TEST)
	@$(BIN)/python scripts/unasync.py

figures: $(DEV)
	@GLCB_FIGURES=docs/images $(BIN)/python -m pytest -q tests/service/test_dashboard.py -k "created or judged"

notebooks: $(DEV)
	@$(BIN)/jupyter execute --inplace docs/notebooks/*.ipynb

tables: $(DEV)
	@$(BIN)/glcb report results/reference --into docs/results.md --reference glcb
	@$(BIN)/glcb report results/bakeoff --into docs/results.md --reference glcb
	@$(BIN)/glcb report results/scenarios --into docs/results.md --reference glcb
	@$(BIN)/glcb report results/intents --into docs/results.md --reference glcb
	@$(BIN)/glcb report results/clicks --into docs/results.md --reference glcb

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out site glcb-demo* glcb-bench glcb-study
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
