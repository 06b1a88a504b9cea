# hubd: `make run` starts it, `make test` proves it. Both set up what they need and repeat quickly.
# Variables: ARGS for hubd, PYTHON for the interpreter of the virtual environment.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: help run dist deps checks test everything fast repeat conformance fuzz soak load steps idle otel compare pictures clean

help: ## show this
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 22

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "hubd needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv .venv || \
		{ echo "Python's venv module is missing; on Debian: apt install python3-venv" >&2; exit 1; }
	@touch $@

.venv/.runtime: .venv/.made pyproject.toml hub/hubd_script.py hub/mcp_hubd_script.py
	@echo "installing hubd into .venv"
	@$(PIP) install --editable .
	@touch $@

.venv/.uv: .venv/.made
	@$(PIP) install 'uv>=0.8' || echo "there is no uv for this machine; pip does its work"
	@touch $@

.venv/.dev: .venv/.uv pyproject.toml hub/hubd_script.py hub/mcp_hubd_script.py
	@echo "installing hubd and its development tools into .venv"
	@tests/deps/install.sh .venv --editable '.[dev]'
	@touch $@ .venv/.runtime

run: .venv/.runtime ## start the hub in the foreground; ARGS="--listen 127.0.0.1:9000" passes through
	@exec $(BIN)/hubd serve $(ARGS)

dist: .venv/.dev ## build the source distribution and the wheel, into dist/
	@$(BIN)/hatchling build --clean -d dist

deps: .venv/.uv ## fetch the real servers and clients that tests drive, into .deps/
	@PYTHON="$(PYTHON)" tests/deps/setup.sh

checks: .venv/.dev ## format, lint, types and import rules
	@tests/check.sh checks

test: .venv/.dev ## lint, types and the tests of all that a change can break, real peers included
	@tests/check.sh all

everything: .venv/.dev ## these, and installs, a container, cold starts, fleets, load, every leg of the conformance suite
	@tests/check.sh everything

fast: checks ## lint, types and the tests that need no real peers
	@tests/check.sh tests

repeat: .venv/.dev ## the tests of `fast` N=20 times, each with another seed, until one fails
	@for round in $$(seq $(or $(N),20)); do \
		export HUBD_SCHEDULER_SEED=$$RANDOM PYTHONHASHSEED=$$RANDOM; \
		echo "--- round $$round of $(or $(N),20)"; \
		tests/check.sh tests --maxfail=1 $(ARGS) || exit 1; \
	done

conformance: .venv/.dev deps ## the official conformance suite, every leg, balancer and sign-in; results in .build/conformance/
	@$(BIN)/python tests/conformance/run.py all
	@$(BIN)/pytest tests/conformance/test_client_scenarios.py tests/conformance/test_auth_scenarios.py \
		tests/real/test_balanced_conformance.py

fuzz: .venv/.dev ## 10 000 malformed inputs per entry point
	@HUBD_FUZZ=10000 $(BIN)/pytest -k fuzz tests

soak: .venv/.dev ## 2 000 random worlds of hosts, servers and people, and acts at every step; SEEDS=n for another number
	@HUBD_SEEDS=$(or $(SEEDS),2000) $(BIN)/pytest -n auto tests/simulation tests/journeys tests/cache/test_properties.py

load: .venv/.dev deps ## reloads and kills under load, the long form, what sharing saves and what sign-ins take
	@HUBD_LOAD=full $(BIN)/pytest -q -s tests/load
	@$(BIN)/python -m tests.load.fairness
	@$(BIN)/python -m tests.load.scraped
	@$(BIN)/python tests/load/sharing.py
	@$(BIN)/python tests/load/oauth_memory.py

steps: .venv/.dev ## the longest step of the hub's loop under floods of values that cost much to read
	@$(BIN)/python tests/guard/longest_steps.py

idle: .venv/.dev ## how often an idle hub wakes; takes two minutes
	@$(BIN)/python tests/guard/idle_hub.py

otel: .venv/.dev deps ## traces through the hub as Phoenix shows them; fetches Phoenix, 900 MB
	@[ -x .deps/py-phoenix/bin/phoenix ] || { $(BIN)/python -m venv .deps/py-phoenix && \
		tests/deps/install.sh .deps/py-phoenix -r tests/deps/requirements-phoenix.txt; }
	@$(BIN)/pytest tests/real/test_traces.py

compare: .venv/.dev ## hubd beside Envoy, a bare relay and Python gateways, as Markdown; ARGS=--write: into hub/README.md
	@$(BIN)/python -m tests.bench.compare $(ARGS)

pictures: .venv/.dev deps ## the pictures of the dashboard in hub/README.md; takes two minutes
	@$(BIN)/python -m tests.real.pictures

clean: ## remove everything that make made
	rm -rf .venv .deps .build .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
