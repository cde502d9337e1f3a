# Everything runs in a virtual environment in .venv, which `make clean` removes; make docs VENV=build/docs takes another.
# ARGS reaches the command: make demo ARGS="--json", make test ARGS="-k onnx", make bench ARGS="--help".

PYTHON ?= python3
ARGS ?=
# The tests run in so many processes.
PROCESSES ?= 2
# Those that are supported; `make test-matrix` tries each in an environment of its own.
PYTHONS ?= 3.10 3.11 3.12 3.13 3.14
# Tests that hang on numbers, for `make test-numerics`.
NUMERICS ?= tests/predictors tests/devices tests/report tests/cli/test_advise.py tests/cli/test_check.py \
	tests/cli/test_choose.py tests/cli/test_compare.py tests/cli/test_explain.py
# OpenBLAS's kernels that they run with. A processor must be able to execute them, or the process dies: Prescott (SSE3) and
# Nehalem (SSE4.2) run wherever numpy does, Haswell needs AVX2.
BLAS_KERNELS ?= Prescott $(if $(shell grep -lw avx2 /proc/cpuinfo 2>/dev/null),Haswell,Nehalem)
CYCLONEDX := cyclonedx-bom==7.5.0
# The only version that `make constraints` fixes beforehand: a free choice may bring gigabytes of GPU libraries.
TORCH ?= 2.13.0

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
# A stamp is newer than what it was made from: only a change of the package's metadata or of the pins reinstalls.
CREATED := $(VENV)/.created
LOCAL := $(VENV)/.installed-local
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
UV := $(BIN)/uv
PINNED := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-numerics lint docs test-matrix mutate bench bench-peer constraints sbom clean
# Two targets at once would install into the same environment.
.NOTPARALLEL:

help:
	@echo "make demo           profile this machine, predict networks it never ran, check by running them"
	@echo "make test           the tests, without the slow ones"
	@echo "make test-all       all tests"
	@echo "make test-numerics  the tests that hang on numbers, as other processors compute them"
	@echo "make lint           ruff (rules and format) and mypy"
	@echo "make docs           the documentation as a site, in build/site; a broken link fails"
	@echo "make test-matrix    the tests on every supported Python, which uv fetches"
	@echo "make mutate         plants random faults and counts those that the tests notice (hours)"
	@echo "make bench          one of the benchmarks, ARGS=\"pool\"; lists them without"
	@echo "make bench-peer     nn-meter and latcast on the same ONNX files"
	@echo "make constraints    resolve all dependencies anew and rewrite constraints.txt and deploy/requirements.txt"
	@echo "make sbom           what the image of a hub holds, as CycloneDX in build/sbom.json"
	@echo "make clean          remove .venv, caches and build outputs"

$(CREATED):
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(LOCAL): $(CREATED) $(PINNED)
	@echo "installing latcast with what measures and trains into $(VENV)"
	@$(INSTALL) -e ".[local]"
	@touch $@

$(DEV): $(CREATED) $(PINNED)
	@echo "installing latcast with every extra and the development tools into $(VENV) (about 2 GB)"
	@$(INSTALL) -e ".[all,dev]"
	@touch $(LOCAL) $@

$(DOCS): $(CREATED) $(PINNED)
	@echo "installing latcast with what builds its documentation into $(VENV)"
	@$(INSTALL) -e ".[docs,plots,torch]"
	@touch $@

$(UV): $(CREATED)
	@$(INSTALL) uv==0.13.9
	@touch $@

demo: $(LOCAL)
	@$(BIN)/latcast demo $(ARGS)

test: $(DEV)
	$(BIN)/python -m pytest -m "not slow" -n $(PROCESSES) $(ARGS)

test-all: $(DEV)
	$(BIN)/python -m pytest -n $(PROCESSES) $(ARGS)

test-numerics: $(DEV)
	set -e; features=$$($(BIN)/python -c "from numpy._core import _multiarray_umath as numpy; print(*numpy.__cpu_dispatch__)"); \
	for kernel in $(BLAS_KERNELS); do \
		echo "OpenBLAS for $$kernel, numpy without $$features"; \
		OPENBLAS_CORETYPE=$$kernel NPY_DISABLE_CPU_FEATURES="$$features" \
			$(BIN)/python -m pytest -m "not slow" -n $(PROCESSES) $(ARGS) $(NUMERICS); \
	done

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

# Pins are those of one Python: a marker in constraints.txt stands where a version is for newer ones only.
test-matrix: $(UV)
	set -e; for version in $(PYTHONS); do \
		echo "Python $$version"; \
		$(UV) venv -q --allow-existing --python $$version build/python-$$version; \
		$(UV) pip install -q --python build/python-$$version -e ".[local,plots,server,search]" \
			httpx hypothesis pytest pytest-timeout pytest-xdist pyyaml; \
		build/python-$$version/bin/python -m pytest -m "not slow" -n $(PROCESSES) $(ARGS); \
	done

mutate: $(DEV)
	$(BIN)/python .ci/mutate.py $(ARGS)

bench-peer: $(DEV)
	$(BIN)/python -m benchmarks.peer $(ARGS)

bench: $(DEV)
	$(BIN)/python -m benchmarks $(or $(ARGS),--help)

constraints: $(CREATED)
	@echo "torch==$(TORCH)" > $(VENV)/beforehand.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --dry-run --ignore-installed \
		-c $(VENV)/beforehand.txt --report $(VENV)/resolution.json ".[all,dev,docs]"
	@$(BIN)/python .ci/pin.py < $(VENV)/resolution.json > $(VENV)/constraints.txt
	@mv $(VENV)/constraints.txt constraints.txt
	@$(MAKE) --no-print-directory deploy/requirements.txt

# What the image of a hub installs, with hashes; hatchling builds latcast in it. An editable install and a CPU build of PyTorch have no
# hash to check, so constraints.txt has none.
.PHONY: deploy/requirements.txt
deploy/requirements.txt: $(UV)
	@echo hatchling | $(UV) pip compile -q --extra server -c constraints.txt --generate-hashes --no-annotate \
		--python-version 3.12 --custom-compile-command "make constraints" -o $@ pyproject.toml -

sbom: $(UV)
	@mkdir -p build
	@$(UV) tool run -q --from $(CYCLONEDX) cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		-o build/sbom.json deploy/requirements.txt
	@echo build/sbom.json

clean:
	rm -rf $(VENV) build dist .hypothesis .mutation .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks papers shipping -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
