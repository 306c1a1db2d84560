# From a bare machine with make and Python >= 3.11 to a trained scheduler (make demo) or to every check (make test).
# Both set up what they need on their first run and nothing on the second.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := learn,render,dev

# Idle threads of torch sleep instead of spinning: with two of them on a loaded machine that is a factor of ten.
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types floors unit format lock clean

help: ## Show these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

install: $(STAMP) ## Make the virtual environment and install everything into it

# The pip of the environment is used as it is, and a torch that is already there and fits the constraints is kept.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python %d.%d is too old: Murmuration needs 3.11 or newer; choose one with  make PYTHON=..." % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(STAMP) ## Train a small scheduler, compare it with heuristics, write tables, plots and curves
	$(BIN)/python scripts/train.py experiment=demo

test: lint types floors unit ## Everything that CI runs

lint: $(STAMP) ## Style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Static types
	$(BIN)/mypy

floors: $(STAMP) ## Who may import whom
	$(BIN)/lint-imports

unit: $(STAMP) ## All tests, on JOBS processes
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile $(PYTEST_ARGS)

format: $(STAMP) ## Put style and format right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Resolves anew from the ranges in pyproject.toml; the header of the file stays. Parts of CUDA are pinned by torch itself.
lock: ## Write constraints.txt anew
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	grep '^#' constraints.txt > .venv-lock/constraints.txt
	.venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable \
		| sed -E 's/\+(cpu|cu[0-9]+)$$//' | grep -vE '^(nvidia|cuda|triton)' >> .venv-lock/constraints.txt
	mv .venv-lock/constraints.txt constraints.txt
	rm -rf .venv-lock

clean: ## Remove what can be made anew: the environment and all caches (not runs, not checkpoints)
	rm -rf $(VENV) .venv-lock *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
