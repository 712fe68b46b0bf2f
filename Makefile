# Two commands do everything: `make demo` and `make test`. Both set up .venv by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test lint tables clean

help:
	@echo "make demo   set up, then play the wheel bandit and draw the result"
	@echo "make test   set up, then check style and types and run the tests"
	@echo "make lint   style and types only"
	@echo "make tables put the numbers of results/ into the README"
	@echo "make clean  remove everything that was made"

$(READY): pyproject.toml
	@echo "==> setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "glcb needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

demo: $(READY)
	@echo "==> glcb demo (the first run compiles the kernels, which takes some seconds)"
	@$(BIN)/glcb demo

lint: $(READY)
	@echo "==> style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> types"
	@$(BIN)/mypy

test: lint
	@echo "==> tests"
	@$(BIN)/python -m pytest

tables: $(READY)
	@$(BIN)/glcb report results/reference --into README.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out glcb-demo.png
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
