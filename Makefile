# make demo trains a scheduler, make test runs every check. Both need only make and Python 3.11 to 3.13: they install everything else on
# their first run, and nothing on the second.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=
# Tests that `make test` leaves out; `make test-all` sets this to nothing.
LEAVE_OUT ?= -m 'not exhaustive'
FILES ?=
REVISION ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := learn,render,recipes,parquet,docs,dev

# Idle threads of torch sleep instead of spinning: with two threads on a loaded machine this is ten times faster.
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all check costs figures lint types layers unit docs docs-serve slurm-up slurm-down kube-up kube-down format lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

install: $(STAMP) ## Create the virtual environment and install everything into it

# The environment's pip is not upgraded, and an installed torch that satisfies the constraints is kept.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Python %d.%d does not work: Murmuration needs 3.11, 3.12 or 3.13; choose one with  make PYTHON=..." % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@
	@echo 'Installed. Each command compiles what it plays when it first plays it; $(BIN)/murmuration compile compiles everything now, in some minutes.'

demo: $(STAMP) ## Train a small scheduler, compare it with heuristics, write tables, plots and curves
	$(BIN)/python scripts/train.py experiment=demo

test: lint layers ## Everything that CI runs; types are checked beside the tests
	$(MAKE) --jobs 2 types unit

test-all: ## What make test runs, and the long forms of its tests
	$(MAKE) test LEAVE_OUT=

check: $(STAMP) ## What your change concerns, in 120 CPU seconds; FILES="..." names the changed files
	$(BIN)/python -m tests.selection $(FILES)

costs: $(STAMP) ## Measure the CPU seconds of test files, by which `make check` chooses; PYTEST_ARGS selects whole files
	$(BIN)/python -m pytest -p tests.selection.costs --numprocesses $(JOBS) --dist loadfile $(PYTEST_ARGS)

figures: $(STAMP) ## What the house weighs, as one table; REVISION="..." names revisions to compare with
	$(BIN)/python -m tests.selection.figures $(REVISION)

lint: $(STAMP) ## Style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Static types
	$(BIN)/mypy

layers: $(STAMP) ## Layers of packages: which may import which
	$(BIN)/lint-imports

unit: $(STAMP) ## The tests, on JOBS processes, in the order of tests/conftest.py
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(LEAVE_OUT) $(PYTEST_ARGS)

docs: $(STAMP) ## Build the documentation site into site/, without network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(STAMP) ## Show the documentation site at http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

slurm-up: $(STAMP) ## Start a Slurm test cluster on this machine; needs Debian's packages of Slurm and root
	$(BIN)/python scripts/slurm_cluster.py up

slurm-down: $(STAMP) ## End the test cluster
	$(BIN)/python scripts/slurm_cluster.py down

kube-up: $(STAMP) ## Start a Kubernetes test cluster on this machine; the first time it is built from Debian's source
	$(BIN)/python scripts/kubernetes_cluster.py up

kube-down: $(STAMP) ## End it
	$(BIN)/python scripts/kubernetes_cluster.py down

format: $(STAMP) ## Fix style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Resolves the ranges in pyproject.toml again and keeps the header of the file. torch itself pins the CUDA packages.
lock: ## Rewrite constraints.txt with the newest versions
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --editable '.[$(EXTRAS),slurm,kubernetes,wandb,mlflow]'
	grep '^#' constraints.txt > .venv-lock/constraints.txt
	.venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable \
		| sed -E 's/\+(cpu|cu[0-9]+)$$//' | grep -vE '^(nvidia|cuda|triton)' >> .venv-lock/constraints.txt
	mv .venv-lock/constraints.txt constraints.txt
	rm -rf .venv-lock

clean: ## Remove the environment, the site and all caches (not runs, not checkpoints)
	rm -rf $(VENV) .venv-lock site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
