# `make demo` and `make test` set themselves up: all they need is make and a Python from 3.11 on.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
DIST ?= dist
MREC = $(VENV)/bin/mrec
# As many processes as there are cores; PYTEST_ARGS=-n0 for one.
PYTEST = $(VENV)/bin/python -m pytest -q -n auto --dist worksteal
PYTEST_ARGS ?=
# What the installation compiles.
KERNEL = hatch_build.py $(wildcard molrec_convert/_kernel/*.c molrec_convert/_kernel/*.h molrec_convert/_kernel/build.py)

.PHONY: demo test test-all docs lint wheels clean

# Converts a LAMMPS run of 27 water molecules and looks at the result.
demo: $(VENV)/.demo
	rm -rf demo && mkdir demo
	$(MREC) convert fixtures/water-run demo/water.mrec --report demo/report.json
	$(MREC) info demo/water.mrec
	$(MREC) validate demo/water.mrec
	$(MREC) pack demo/water.mrec demo/water.mrec.zip
	$(MREC) diff demo/water.mrec demo/water.mrec.zip && echo "demo/water.mrec and demo/water.mrec.zip hold the same record"

# What a change needs: a few minutes. Every test, and all examples of the random ones: `make test-all`.
test: $(VENV)/.test
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: $(VENV)/.test
	$(PYTEST) --all-examples $(PYTEST_ARGS)

docs: $(VENV)/.dev
	$(VENV)/bin/python -m sphinx -q -W -b html docs docs/_build/html

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The source, and a wheel for each of four platforms, in dist/.
wheels: $(VENV)/.wheels
	PYTHON=$(VENV)/bin/python .ci/wheels $(DIST)

clean:
	rm -rf $(VENV) demo build dist docs/_build

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "no Python from 3.11 on was found: name one, make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml $(KERNEL)
	$(VENV)/bin/python -m pip install --quiet -e '.[all]'
	touch $@

$(VENV)/.wheels: $(VENV)/.python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet 'build>=1.2' 'hatchling>=1.25' 'ziglang>=0.13'
	touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml $(KERNEL)
	$(VENV)/bin/python -m pip install --quiet -e '.[test]'
	@$(VENV)/bin/python -m pip install --quiet -e '.[parmed]' 2>/dev/null || echo "ParmEd was not built (it needs a C++ compiler): its tests are skipped"
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml $(KERNEL)
	$(VENV)/bin/python -m pip install --quiet -e '.[dev]'
	touch $@
