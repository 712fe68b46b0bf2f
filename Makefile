# Two commands do everything: `make demo` and `make test`. Both set up .venv by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the demo needs is installed in seconds; what the tests need (JAX, a browser's driver, …) takes longer.
DEMO := $(VENV)/.demo-ready
DEV := $(VENV)/.dev-ready
RIVALS := $(VENV)/.rivals-ready

.PHONY: help demo test lint speed soak tables clean

help:
	@echo "make demo   set up, then play the wheel bandit and draw the result"
	@echo "make test   set up, then check style and types and run the tests"
	@echo "make lint   style and types only"
	@echo "make speed  times, their growth and memory, beside other bandits: some minutes on an otherwise idle machine"
	@echo "make soak   a bandit through a million operations in disorder: nothing is lost, memory is flat"
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
	@$(BIN)/python -m pytest

# A rival that has no ready-made package for this machine must not keep glcb from being measured.
$(RIVALS): pyproject.toml $(DEMO)
	@echo "==> installing the bandits that glcb is compared with"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --editable '.[report,rivals]' \
		|| echo "==> not all of them can be installed here: those that are missing are left out"
	@touch $@

speed: $(RIVALS)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed

soak: $(DEMO)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.soak

tables: $(DEV)
	@$(BIN)/glcb report results/reference --into README.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out glcb-demo.png glcb-bench glcb-study
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
