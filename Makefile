# `make demo` and `make test` are the two to know; `make help` lists the rest.
PY := .venv/bin/python
PYTEST := $(PY) -m pytest -q
# Most tests wait for servers and clocks, so more run at once than there are cores; each runner has servers of its own.
RUNNERS := 4

# Every test starts many processes: without compiled modules each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench up down clean lock format

help: ## Show the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: ## Make .venv (every other target does this first)
	@deploy/local/setup.sh

demo: setup ## Watch reminders reach phones around the world, on real parts
	@$(PY) -m deploy.local.demo

test: setup ## All tests, against real servers
	@$(PYTEST) -n $(RUNNERS) --dist worksteal tests

check: setup ## Format, lint, types, import rules, unit tests
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo
	@$(PYTEST) -n 2 tests/unit

bench: setup ## Measure, each figure beside a bare baseline of the same run
	@$(PY) -m tests.bench

up: setup ## Start the local stack; prints exports: eval "$(make -s up)"
	@$(PY) -m deploy.local up

down: setup ## Stop the local stack
	@$(PY) -m deploy.local down

clean: setup ## Stop the local stack and delete its data and the demo's
	@$(PY) -m deploy.local down --wipe
	@rm -rf .local/demo

format: setup ## Format the code
	@.venv/bin/ruff format --quiet .
	@.venv/bin/ruff check --quiet --fix .

lock: setup ## Renew the lock files from pyproject.toml
	@for set in '' sandbox dev; do \
	  .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade \
	    $${set:+--group $$set} pyproject.toml -o requirements$${set:+-$$set}.lock; done
