# The verbs of this workspace; continuous integration calls the same ones. Needs Python 3.11+, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MEMBERS := grilly_core grilly_backend_cpu grilly_backend_vulkan grilly_ext_snn grilly_ext_memory grilly_testkit grilly
EDITABLE := -e ./grilly_core -e './grilly_backend_cpu[fast]' -e ./grilly_backend_vulkan -e './grilly_ext_snn[nir]' \
  -e './grilly_ext_memory[sharded]' -e ./grilly_testkit -e './grilly[testkit,demo]'
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-peers unit lint format type conformance isolate docs bench clean

help: ## show the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## create .venv with all members, editable (does nothing when up to date)

# One pip command: the members name each other, and the name `grilly` on the public index is not ours.
$(VENV)/.installed: constraints.txt requirements-dev.txt $(MEMBERS:%=%/pyproject.toml)
	@test -x $(BIN)/python || { echo "setup: creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup: installing the members and tools (a few minutes the first time)"
	@$(PIP) install -c constraints.txt -r requirements-dev.txt $(EDITABLE)
	@touch $@
	@echo "setup: done"

$(VENV)/.peers: $(VENV)/.installed requirements-peers.txt
	@echo "setup: installing the peers (PyTorch is large)"
	@$(PIP) install -c constraints.txt -r requirements-peers.txt
	@touch $@

demo: setup ## train a small network on handwritten digits
	@$(BIN)/grilly demo digits

test: lint type unit ## every gate but the peers

unit: setup ## pytest on everything but tests/peers
	@$(BIN)/python -m pytest --ignore=tests/peers

test-peers: $(VENV)/.peers ## compare with PyTorch and SciPy
	@$(BIN)/python -m pytest tests/peers

lint: setup ## ruff, formatting, import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo

format: setup ## let ruff fix and format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

type: setup ## mypy, strict, on core
	@$(BIN)/mypy

conformance: setup ## the conformance suite: the CPU and Vulkan at level 3 (a software driver will do)
	@$(BIN)/grilly conformance --device cpu --level 3 --report out/conformance-cpu.json
	@GRILLY_VULKAN_DEVICE=$${GRILLY_VULKAN_DEVICE:-llvmpipe} \
	  $(BIN)/grilly conformance --device vulkan --level 3 --report out/conformance-vulkan.json

isolate: ## each package alone, with only what it declares, imports
	@$(PYTHON) tools/isolate.py

docs: setup ## run every snippet of the documentation and every example
	@$(BIN)/python -m pytest tests/docs

bench: setup ## benchmarks; results in out/
	@$(BIN)/python -m benchmarks

clean: ## remove what the verbs made
	rm -rf $(VENV) .isolate out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
