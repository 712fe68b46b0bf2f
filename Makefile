# `make help` lists the commands. Each sets up .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the demo needs is installed in seconds; what the tests need (JAX, a browser's driver, …) takes longer.
DEMO := $(VENV)/.demo-ready
DEV := $(VENV)/.dev-ready
RIVALS := $(VENV)/.rivals-ready
SERVICE := $(VENV)/.service-ready
DOCS := $(VENV)/.docs-ready

.PHONY: help demo serve-demo docs test lint speed load pictures soak tables clean

help:
	@echo "make demo   set up, then play the wheel bandit and draw the result"
	@echo "make serve-demo  set up, then serve three experiments with made-up visitors on http://127.0.0.1:8000"
	@echo "make docs   set up, then build the documentation into site/"
	@echo "make test   set up, then check style and types and run the tests"
	@echo "make lint   style and types only"
	@echo "make speed  times, their growth and memory, beside other bandits: some minutes on an otherwise idle machine"
	@echo "make load   decisions and rewards a second of glcb serve, on SQLite and PostgreSQL: some minutes"
	@echo "make soak   a bandit through a million operations in disorder, the service killed 200 times on each"
	@echo "            database and led through a million decisions: nothing is lost, memory is flat; some hours"
	@echo "make pictures  take the screenshots of docs/images again (needs Chromium)"
	@echo "make tables put the numbers of results/ into the README"
	@echo "make clean  remove everything that was made"

$(BIN)/python:
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "glcb needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV)

$(DEMO): pyproject.toml | $(BIN)/python
	@echo "==> installing glcb (about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[report]'
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	@echo "==> installing glcb and everything that its tests need (some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(DEMO)
	@echo "==> glcb demo (the first run compiles the kernels, which takes some seconds)"
	@$(BIN)/glcb demo
	@echo "==> next: source $(BIN)/activate, then glcb --help"

lint: $(DEV)
	@echo "==> style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> types"
	@$(BIN)/mypy

test: lint
	@echo "==> tests"
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# A rival that has no ready-made package for this machine must not keep glcb from being measured.
$(RIVALS): pyproject.toml $(DEMO)
	@echo "==> installing the bandits that glcb is compared with"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --editable '.[report,rivals]' \
		|| echo "==> not all of them can be installed here: those that are missing are left out"
	@touch $@

speed: $(RIVALS)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed

$(DOCS): pyproject.toml | $(BIN)/python
	@echo "==> installing what the documentation needs"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[client,docs]'
	@touch $@

docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "==> site/index.html"

$(SERVICE): pyproject.toml $(DEMO)
	@echo "==> installing what glcb serve needs"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[report,service]'
	@touch $@

serve-demo: $(SERVICE)
	@echo "==> glcb serve --demo: three experiments with made-up visitors; Ctrl-C ends it"
	@$(BIN)/glcb serve --demo

load: $(SERVICE)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.load

soak: $(DEV)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.kills
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.outage
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.endurance
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.watched

pictures: $(DEV)
	@GLCB_PICTURES=docs/images $(BIN)/python -m pytest -q tests/service/test_dashboard.py -k explained

tables: $(DEV)
	@$(BIN)/glcb report results/reference --into README.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out site glcb-demo.png glcb-bench glcb-study
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
