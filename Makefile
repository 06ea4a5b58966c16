# The two commands: `make tune` (set up, run the main job) and `make test` (set up, run all tests).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= tuned

export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup tune test test-integration lint bench clean

help:
	@echo "make tune   set up .venv and tune the recovery policy on the built-in trace (writes $(OUT)/)"
	@echo "make test   set up .venv and run every test"
	@echo "make test-integration   heavy real parts"
	@echo "make lint   ruff and mypy --strict"
	@echo "make bench  speed and memory against their targets"

# Two stamps: what a user needs, and what a developer needs on top.
$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt --editable '.[test,lint,calibrate]'
	@touch $@

setup: $(VENV)/.ready

tune: $(VENV)/.ready
	$(BIN)/lumen-tune tune --out $(OUT) --force

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n auto -m "not integration" tests

test-integration: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m integration tests

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready-dev
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) dist build bench/out
