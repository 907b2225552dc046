# `make help` lists the targets. `make demo` is the first one to try.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GRUE := $(BIN)/grue
READY := $(VENV)/.ready

# Two torch processes with several threads each slow one another down.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE ?= 1

# What `make retrain` trains again.
ROW ?= supervised
TASK ?= imdb
SEED ?= 1

.PHONY: help install demo test test-slow test-all check lint types tasks pages boards docs bench findings leaderboard \
	check-submissions retrain clean
.DEFAULT_GOAL := help

help:  ## List the targets; times are those of two cores.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(READY)  ## Create .venv and install grue with its test dependencies (minutes: it downloads torch).

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Train NLPO on mini IMDB, evaluate it and print the board (4 minutes).
	$(GRUE) train --task imdb --algo supervised+nlpo --runs .demo/runs
	$(GRUE) evaluate --task imdb --baseline zero-shot --runs .demo/runs
	$(GRUE) evaluate --checkpoint .demo/runs/mini/imdb/supervised/seed-1
	$(GRUE) evaluate --checkpoint .demo/runs/mini/imdb/supervised+nlpo/seed-1
	$(GRUE) leaderboard --task imdb --runs .demo/runs

check: $(READY)  ## Lint, check types, task files, generated pages and committed boards (1 minute, less once mypy has its cache).
	@$(MAKE) --no-print-directory --jobs 2 types lint tasks pages boards

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

tasks: $(READY)
	$(GRUE) tasks validate

pages: $(READY)
	$(BIN)/python tools/algorithms_page.py --check
	$(BIN)/python tools/metrics_page.py --check
	$(BIN)/python tools/checks_page.py --check

boards: $(READY)
	$(GRUE) leaderboard --check

test: $(READY)  ## Run the quick tests (8 minutes of processor time).
	$(BIN)/python -m pytest -n 2 -m 'not slow'

test-slow: $(READY)  ## Run the slow tests (14 minutes of processor time, and Ray); those that need Debian's WordNet or a browser skip without it.
	$(BIN)/python -m pytest -n 2 -m slow --ignore tests/sweep/test_ray.py
	$(BIN)/python -m pytest -m slow tests/sweep/test_ray.py # a cluster at a time

test-all: test test-slow  ## Run every test.

docs: $(READY)  ## Regenerate the parts of docs/ that come from the code (half a minute).
	$(BIN)/python tools/algorithms_page.py
	$(BIN)/python tools/metrics_page.py
	$(BIN)/python tools/checks_page.py

bench: $(READY)  ## Run the benchmarks; each takes minutes, and measures what it compares side by side.
	for file in $(filter-out benchmarks/cost.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$file || exit 1; done

findings: $(READY)  ## Run the grids of experiments/findings and write their tables (hours).
	for file in experiments/findings/*.toml; do $(GRUE) sweep --config $$file --runs runs || exit 1; done
	$(BIN)/python experiments/findings.py --runs runs --draw docs/images/findings

leaderboard: $(READY)  ## Regenerate leaderboard/ from submissions/ (seconds).
	$(GRUE) leaderboard --publish leaderboard

check-submissions: $(READY)  ## Score every submission again from its predictions (8 minutes).
	$(GRUE) submit check submissions

retrain: $(READY)  ## Train a run of a committed row again, and compare (2 minutes; ROW, TASK and SEED choose another).
	rm -rf .retrain # a finished run would not be trained again
	$(GRUE) submit retrain submissions/mini/$(ROW) --task $(TASK) --seed $(SEED) --runs .retrain

clean:  ## Remove everything that make made.
	rm -rf $(VENV) .demo .retrain build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
