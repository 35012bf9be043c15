# What a checkout can do. Everything needs only make and Python 3.11 or later: the first target to be called makes .venv.
PYTHON ?= python3
BIN := .venv/bin
# Done when this file is newer than what it depends on: the second `make` spends no time on installing.
STAMP := .venv/.installed
# What `make bench` compares with has an environment of its own, so that its needs never touch the product's.
PEERS := .venv-bench

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all bench commands-page lint format typecheck imports check clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 12

setup: $(STAMP)  ## make .venv with the package, its tools and the tested versions

# uv when it is there, and pip when uv is not there or cannot do it (it does not read pip's own configuration).
$(STAMP): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1 \
	  && { [ -x $(BIN)/python ] || uv venv --quiet --python '>=3.11' .venv; } \
	  && uv pip install --quiet --python $(BIN)/python -e '.[dev]' -c constraints.txt; then :; \
	else \
	  $(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed: make PYTHON=...") if sys.version_info < (3, 11) else 0' \
	  && { $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv; } \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt; \
	fi
	@touch $(STAMP)

run: $(STAMP)  ## rate the shipped sample into out/sample
	$(BIN)/eloreplay backfill data/games --columns data/columns.toml --rules tavla42 --out out/sample

# Nothing is printed after pytest: its summary is the last line.
test: $(STAMP)  ## the tests, without the long forms
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long"

test-all: $(STAMP)  ## the tests with the long forms
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m ""

bench: $(STAMP) $(PEERS)/.installed  ## how fast, beside the floor, C and others (GAMES=1000000; BENCH=large; ONLY=floor; DOCS=yes)
	@$(BIN)/python tests/bench/bench.py --peers $(PEERS)/bin/python $(if $(filter large,$(BENCH)),--large) \
	  $(foreach games,$(GAMES),--games $(games)) $(foreach part,$(ONLY),--only $(part)) $(if $(DOCS),--write-docs) $(BENCH_OPTIONS)

$(PEERS)/.installed: pyproject.toml constraints.txt $(STAMP)
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check '.[bench]' -c constraints.txt
	@touch $@

commands-page: $(STAMP)  ## docs/commands.md, from the help of the commands
	@$(BIN)/python tests/commands_page.py

lint: $(STAMP)  ## style of Python and SQL
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/sqlfluff lint --disable-progress-bar sql

format: $(STAMP)  ## put the style right where that can be done by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

imports: $(STAMP)  ## imports go one way
	$(BIN)/lint-imports

check: lint typecheck imports test  ## all of the above before a commit

# .venv and .venv-bench stay: they are what takes long, and a changed constraint renews it anyway.
clean:  ## remove what was made, except the environments
	rm -rf out dist build .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +
