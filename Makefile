# Four verbs: make check test bench leaderboard. `make demo` shows the whole road on the mini suite.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GRUE := $(BIN)/grue
READY := $(VENV)/.ready

# torch in several processes with several threads each slows every one of them down.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE ?= 1

.PHONY: help install demo test test-slow test-all check docs bench findings leaderboard check-submissions clean
.DEFAULT_GOAL := help

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(READY)  ## Create .venv and install grue with everything its tests need.

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Train NLPO on mini CommonGen, evaluate it and print the board.
	$(GRUE) train --task commongen --algo supervised+nlpo --runs .demo/runs
	$(GRUE) evaluate --task commongen --baseline zero-shot --runs .demo/runs
	$(GRUE) evaluate --checkpoint .demo/runs/mini/commongen/supervised/seed-1
	$(GRUE) evaluate --checkpoint .demo/runs/mini/commongen/supervised+nlpo/seed-1
	$(GRUE) leaderboard --task commongen --runs .demo/runs

test: $(READY)  ## Install, and run the tests that take minutes.
	$(BIN)/python -m pytest -n 2 -m 'not slow'

test-slow: $(READY)  ## Run the other tests; those that need Debian's WordNet or a browser skip without it.
	$(BIN)/python -m pytest -n 2 -m slow --ignore tests/sweep/test_ray.py
	$(BIN)/python -m pytest -m slow tests/sweep/test_ray.py # a cluster at a time

test-all: $(READY)  ## Run every test.
	$(BIN)/python -m pytest -n 2

check: $(READY)  ## Lint, check types, and see that the committed boards and pages are current.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(GRUE) tasks validate
	$(BIN)/python tools/metrics_page.py --check
	$(BIN)/python tools/checks_page.py --check
	$(BIN)/python benchmarks/cost.py --check
	$(BIN)/python experiments/findings.py --check
	$(GRUE) leaderboard --check

docs: $(READY)  ## Write what docs/metrics.md, docs/checks.md and docs/cost.md take from the code again.
	$(BIN)/python tools/metrics_page.py
	$(BIN)/python tools/checks_page.py
	$(BIN)/python benchmarks/cost.py --write

bench: $(READY)  ## Run the benchmarks; ratios are side by side in one run.
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

findings: $(READY)  ## Run the paper's questions on the mini suite, and write docs/findings.md.
	for file in experiments/findings/*.toml; do $(GRUE) sweep --config $$file --runs runs || exit 1; done
	$(BIN)/python experiments/findings.py --runs runs --draw docs/images/findings

leaderboard: $(READY)  ## Write leaderboard/ again from submissions/.
	$(GRUE) leaderboard --publish leaderboard

check-submissions: $(READY)  ## Score every submission again from its predictions.
	$(GRUE) submit check submissions

clean:  ## Remove everything that make made.
	rm -rf $(VENV) .demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
