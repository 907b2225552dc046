# `make help` lists the targets. `make demo` is the first one to try.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GRUE := $(BIN)/grue
READY := $(VENV)/.ready
SITE := $(VENV)/.site

# What `make install` installs beside the package: `make install EXTRAS=plot` leaves out what only tests need.
EXTRAS ?= dev
# Where torch comes from beside PyPI, whose wheel for Linux brings gigabytes of CUDA:
# `make install TORCH_INDEX=https://download.pytorch.org/whl/cpu` takes the wheel without, in the version of constraints.txt.
TORCH_INDEX ?=

# Two torch processes with several threads each slow one another down.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE ?= 1

# Tests are compiled once, not by every process anew.
unexport PYTHONDONTWRITEBYTECODE

# Tests in two processes, each file in one of them, which makes its fixtures once.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder

# Tests of files that change rarely (tools/frozen.py); to train mini's models takes the torch of constraints.txt.
FROZEN := tests/miniworld tests/experiments tests/walkthroughs

# Which releases `make test-versions` installs, and where.
RESOLUTION ?= lowest-direct
VERSIONS := .versions/$(RESOLUTION)

# What `make retrain` trains again.
ROW ?= supervised
TASK ?= imdb
SEED ?= 1

.PHONY: help install demo notebooks test test-slow test-ray test-frozen test-versions test-all messages check lint types tasks pages boards \
	docs site bench findings leaderboard check-submissions retrain environments clean
.DEFAULT_GOAL := help

help:  ## List the targets; times are those of two cores.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(READY)  ## Create .venv and install grue with its test dependencies (minutes: it downloads torch).

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)') torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(READY)  ## Train a supervised model and NLPO from it on mini CommonGen, evaluate them and print the board (2 minutes).
	$(GRUE) train --task commongen --algo supervised+nlpo --runs .demo/runs
	$(GRUE) evaluate --task commongen --baseline zero-shot --runs .demo/runs
	$(GRUE) evaluate --checkpoint .demo/runs/mini/commongen/supervised/seed-1
	$(GRUE) evaluate --checkpoint .demo/runs/mini/commongen/supervised+nlpo/seed-1
	$(GRUE) leaderboard --task commongen --runs .demo/runs

check: $(READY)  ## Lint, check types, task files, generated pages and committed boards (1 minute, less once mypy has its cache).
	@$(MAKE) --no-print-directory --jobs 2 types lint tasks pages boards

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy
	MYPYPATH=tools $(BIN)/mypy --config-file= --cache-dir .mypy_cache/scripts --explicit-package-bases \
	  --ignore-missing-imports --follow-imports silent --disable-error-code misc benchmarks/*.py experiments tools

tasks: $(READY)
	$(GRUE) tasks validate

pages: $(READY)
	$(BIN)/python tools/algorithms_page.py --check
	$(BIN)/python tools/papers_page.py --check
	$(BIN)/python tools/metrics_page.py --check
	$(BIN)/python tools/checks_page.py --check

boards: $(READY)
	$(GRUE) leaderboard --check

test: $(READY)  ## Run the quick tests (4 minutes; 2 more with what is frozen).
	$(BIN)/python -m pytest $(IN_TWO) -m 'not slow' --durations 10

test-slow: $(READY)  ## Run the slow tests (8 minutes in two processes, half of it walkthroughs of pages); those that need Debian's WordNet or a browser skip without it.
	$(BIN)/python -m pytest $(IN_TWO) -m slow --ignore tests/sweep/test_ray.py --durations 10

test-ray: $(READY)  ## Run the tests of sweeps on Ray, a cluster at a time (2 minutes).
	$(BIN)/python -m pytest -m slow tests/sweep/test_ray.py

test-frozen: $(READY)  ## Run the tests of what is frozen, which the others leave out while it is unchanged, and record that they pass (6 minutes).
	$(BIN)/python -m pytest $(IN_TWO) $(FROZEN) --durations 10
	$(BIN)/python tools/frozen.py --passed

test-versions: $(VERSIONS)/.ready  ## Run the quick tests with the lowest releases that pyproject.toml allows, in a venv of their own (RESOLUTION=highest: the newest).
	$(VERSIONS)/bin/python -m pytest $(IN_TWO) $(FROZEN:%=--ignore=%) -m 'not slow' -W default # their own warnings are not ours to mend

$(VERSIONS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VERSIONS)
	$(VERSIONS)/bin/python -m pip install --quiet uv
	$(VERSIONS)/bin/uv pip install --quiet --python $(VERSIONS)/bin/python --resolution $(RESOLUTION) --editable '.[dev]'
	@touch $@

test-all: test test-slow test-ray test-frozen  ## Run every test.

messages: $(READY)  ## Write the messages of errors anew that tests compare (tests/*/__snapshots__): read the diff.
	$(BIN)/python -m pytest $(IN_TWO) -m 'not slow' --snapshot-update

docs: $(READY)  ## Regenerate the parts of docs/ that come from the code (half a minute).
	$(BIN)/python tools/algorithms_page.py
	$(BIN)/python tools/papers_page.py
	$(BIN)/python tools/metrics_page.py
	$(BIN)/python tools/checks_page.py

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	@touch $@

site: $(SITE)  ## Build the documentation as a site in site/, every link checked (half a minute; downloads its builder once).
	$(BIN)/python tools/build_site.py

notebooks: $(READY)  ## Run docs/notebooks again and keep what their cells print (10 minutes).
	$(BIN)/python tools/run_notebooks.py

bench: $(READY)  ## Run the benchmarks; each takes minutes, and measures what it compares side by side.
	for file in $(filter-out benchmarks/cost.py benchmarks/memory.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$file || exit 1; done

findings: $(READY)  ## Train the rows of mini (12 hours of one core), and print whether the board tells methods apart.
	$(GRUE) sweep --config experiments/mini.toml
	$(BIN)/python experiments/acceptance.py

leaderboard: $(READY)  ## Regenerate leaderboard/ from submissions/, and the pages that quote it (seconds).
	$(GRUE) leaderboard --publish leaderboard
	$(BIN)/python tools/algorithms_page.py

# The rows of `small` are scored on real text: `make check-submissions SUITES=small` needs the hub.
SUITES = mini
check-submissions: $(READY)  ## Check submissions, scores recomputed from the predictions (11 minutes; with SAMPLE=TEXT of a seed each, 4).
	$(GRUE) submit check $(SUITES:%=submissions/%) $(if $(SAMPLE),--sample '$(SAMPLE)')

retrain: $(READY)  ## Train a run of a committed row again, and compare (2 minutes; ROW, TASK and SEED choose another).
	rm -rf .retrain # a finished run would not be trained again
	$(GRUE) submit retrain submissions/mini/$(ROW) --task $(TASK) --seed $(SEED) --runs .retrain

# Each package has a venv of its own: verifiers and OpenEnv need different versions of mcp, and verifiers an older openai.
ENVIRONMENTS := grue_commongen grue_commongen_openenv
environments: $(ENVIRONMENTS:%=.environments/%/.ready)  ## Install the packages of environments/, each into a venv of its own, and test them (10 minutes, 2 once installed).
	for name in $(ENVIRONMENTS); do \
		.environments/$$name/bin/python -m pip install --quiet --no-deps --force-reinstall environments/$$name && \
		.environments/$$name/bin/python -m pytest environments/test_$$name.py || exit 1; \
	done

.environments/%/.ready: environments/%/pyproject.toml pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .environments/$*
	grep -v '^openai==' constraints.txt >.environments/$*/constraints.txt
	.environments/$*/bin/python -m pip install --quiet --constraint .environments/$*/constraints.txt \
		$(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)') --editable . environments/$* pytest uv
	@touch $@

clean:  ## Remove everything that make made.
	rm -rf $(VENV) .environments .versions .demo .retrain .site site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
