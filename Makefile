# `make demo` and `make test` set up what they need in .venv, once, and run. See `make help`.
#
# Settings: PYTHON=python3.12   EXTRA=cuda12|cuda13|none   VENV=.venv   DEMO="--batch 16 photo.jpg"
#           PYTEST="-k view"    JOBS=auto (processes that run tests)
# Written for GNU make and a plain Linux machine with Python 3.11 or newer. A C++ compiler (g++, or
# CXX=) and Python's headers compile the CPU's loops; without them NumPy's loops run.

SHELL := /bin/sh
VENV ?= .venv
DEMO ?=
PYTEST ?=
JOBS ?= auto
BENCH ?= overhead
SANITIZERS ?= address thread
HOUSE ?=
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start some hundred processes, which would compile the package each time.
unexport PYTHONDONTWRITEBYTECODE

bin := $(VENV)/bin

# The first Python that is new enough and can make virtual environments; with PYTHON=, that one only.
find_python = for p in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.14); do \
	if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	echo "$$p"; break; fi; done

# $(call install,EXTRA OF pyproject.toml): CuPy with NVRTC joins it where an NVIDIA driver answers.
# The CPU's loops need no package: they compile while pip downloads, and pip's build waits for them.
# Python compiles a package's modules when they are first imported: most never are.
install = cuda="$(EXTRA)"; [ -n "$$cuda" ] || cuda=$$($(bin)/python -I gputensor/cli/driver.py); \
	if [ "$$cuda" = none ]; then extras=$(1); echo "setup: no NVIDIA driver, so CPU-only mode"; \
	else extras=$(1),$$cuda; echo "setup: an NVIDIA driver, so CuPy and NVRTC come along ($$cuda)"; fi; \
	echo "setup: installing gputensor[$$extras] into $(VENV); pip is silent until it is done"; \
	$(library) --loops & loops=$$!; trap 'kill $$loops 2>/dev/null' EXIT; trap 'exit 1' INT TERM; \
	$(bin)/python -m pip install -qq --no-compile --editable ".[$$extras]" && $(library) && touch $@

# Loops of this CPU alone, in half the time; the other targets compile those of every CPU.
demo test: export GPUTENSOR_BUILD_CAPABILITIES ?= best

# Compile what changed of the CPU's loops, and say whose loops run: pip says neither.
library = $(bin)/python build_library.py

# $(call pytest,TIER,ARGUMENTS): the tests on all cores; --dist keeps neighbours in one process.
pytest = $(bin)/python -m pytest -q -n $(JOBS) --dist worksteal --tier $(1) $(2) $(PYTEST)

.PHONY: help demo test check full pythons oracle nvrtc lint bench house docs library wheel release clean sanitize

help:
	@echo "make demo    set up and run the demonstration on a photograph (draws demo.png)"
	@echo "make test    set up and run the quick tier of the tests: each operator, dtype and layout once"
	@echo "make check   the full tier, everything crossed; the quick one on every Python from 3.11 on"
	@echo "make oracle  install PyTorch (CPU, for tests only) and compare with it"
	@echo "make nvrtc   install CuPy and NVRTC: every kernel compiles for every architecture, CuPy takes our calls"
	@echo "make sanitize  tests of the CPU's loops under the sanitizers of memory and of threads"
	@echo "make lint    ruff and mypy"
	@echo "make bench   the benchmark $(BENCH); BENCH=NAME for another"
	@echo "make house   the budgets of the house beside what they are; minutes, on a quiet machine"
	@echo "make docs    the pages and the reference of docs/ as a site, in site/index.html"
	@echo "make library compile the CPU's loops again where their sources changed (g++, or CXX=)"
	@echo "make wheel   build dist/gputensor-*.whl: with compiled loops, and without"
	@echo "make release wheels and sdist, each installed and tried on every Python; pip fetches what they need"
	@echo "make clean   remove $(VENV) and everything built"

demo: $(VENV)/.demo
	@$(bin)/gputensor demo $(DEMO)

test: $(VENV)/.test
	@$(library)
	@$(call pytest,quick)

check: full pythons oracle nvrtc

# The quick tier on the other Pythons, each in an environment of its own beside $(VENV).
pythons: $(bin)/python
	@$(bin)/python tests/interpreters.py | while read -r version python; do \
	  $(MAKE) --no-print-directory VENV=$(VENV)-$$version PYTHON="$$python" EXTRA=none test </dev/null || exit 1; done

full: $(VENV)/.check
	@$(library)
	@$(call pytest,full)

oracle: $(VENV)/.oracle
	@$(call pytest,full,-m oracle)

nvrtc: $(VENV)/.nvrtc
	@$(call pytest,full,$(patsubst %,tests/cuda/%,compile runtime/test_runtime_cuda.py \
	  test_kernel_on_cupy.py emulator/test_samples.py emulator/test_emulator_coverage.py))

sanitize: $(VENV)/.test
	@for name in $(SANITIZERS); do $(bin)/python -m tests.sanitize $$name || exit 1; done

lint: $(VENV)/.check
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy

library: $(bin)/python
	@$(library)

bench: $(VENV)/.check
	@$(bin)/python -m bench run $(BENCH)

house: $(VENV)/.oracle
	@$(bin)/python -m bench.house $(HOUSE)

# One with the CPU's loops compiled, for every Python from 3.11 on, and one without, for any machine.
wheel: $(VENV)/.check
	@rm -rf dist build/lib build/lib.* build/bdist*
	@for without in "" default; do \
	  GPUTENSOR_BUILD_CAPABILITIES=$$without $(bin)/python -m pip wheel -qq --no-deps --no-build-isolation \
	    --wheel-dir dist . || exit 1; done
	@ls -l dist/*.whl

release: wheel
	@$(bin)/python -c 'from setuptools import build_meta; build_meta.build_sdist("dist")' >/dev/null
	@$(bin)/python -m tests.release dist

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(bin)/python -m mkdocs build --strict --quiet
	@echo "site/index.html; $(bin)/python -m http.server --directory site 8000 makes its search work"

clean:
	@rm -rf $(VENV) $(VENV)-3.* build dist site gputensor.egg-info demo.png
	@rm -f gputensor/kernels/compiled/_library.abi3.so

# --- setting up -------------------------------------------------------------------------------------

$(bin)/python:
	@python=$$($(find_python)); \
	if [ -z "$$python" ]; then \
	  echo "setup: no Python >= 3.11 with venv was found; install one (Debian: apt install python3-venv)" \
	    "or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; fi; \
	echo "setup: $$("$$python" --version) makes $(VENV)"; \
	"$$python" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.demo: pyproject.toml | $(bin)/python
	@$(call install,demo)

$(VENV)/.test: pyproject.toml | $(bin)/python
	@$(call install,test)

$(VENV)/.check: pyproject.toml | $(bin)/python
	@$(call install,check)

$(VENV)/.docs: pyproject.toml | $(bin)/python
	@$(call install,docs)

$(VENV)/.oracle: $(VENV)/.check
	@echo "setup: installing torch==2.13.0 and safetensors into $(VENV), for the oracle tests only"
	@$(bin)/python -m pip install -qq torch==2.13.0 safetensors && touch $@

# Where a GPU's extra is installed, CuPy and NVRTC are there already.
$(VENV)/.nvrtc: $(VENV)/.check
	@$(bin)/python -c 'import cupy' 2>/dev/null || { \
	echo "setup: installing CuPy and NVRTC into $(VENV)"; \
	$(bin)/python -m pip install -qq cupy-cuda12x nvidia-cuda-nvrtc-cu12; }
	@touch $@
