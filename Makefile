# Every target makes what it needs; `make help` lists them. Rarer runs: docs/runs.md.
PYTHON ?= python3
BIN := .venv/bin
UPSTREAM ?= ../upstream
# Tests start hundreds of interpreters; each would compile the source anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test check nightly bench docs release fuzz upstream accuracy agree clients cluster clean always
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12
	@echo 'docs/runs.md has rarer runs.'

run: .venv/.run ## install without torch or jax, and print the demo
	@$(BIN)/trnsim demo

test: .venv/.test ## install what tests need, run checks and every test but the slow ones: six minutes on two cores
	@rm -rf build/test-costs
	$(BIN)/python tests/suite/fast.py; status=$$?; \
		$(BIN)/python tests/suite/costs.py build/test-costs build/test-costs.md; exit $$status

check: .venv/.test ## format, lint, types, layers, spelling, the shape of the house, and the tests a newcomer runs first
	@$(MAKE) --no-print-directory --jobs=2 build/checked/mypy build/checked/basedpyright build/checked/source

nightly: .venv/.test .venv-clients/.made .venv-notebook/.made .venv-site/.made .venv-specs/.made ## every test, mutants, random kernels and other long checks: 100 minutes; a stopped run goes on
	$(BIN)/python tests/suite/nightly.py

bench: .venv/.test ## time the emulator against plain numpy and PyTorch, as ratios in one run
	for script in run torch_steps ddp watch imports ranks jax_dispatch estimating peers; do $(BIN)/python bench/$$script.py || exit; done

docs: .venv/.test ## write the pages that the source makes, and put what is printed today into README and docs
	$(BIN)/python docs/makers/pages.py
	$(BIN)/python docs/makers/stubs.py
	$(BIN)/python tests/test_docs.py

SEED ?= 0
KERNELS ?= 10000
fuzz: .venv/.test ## random kernels against an oracle: make fuzz SEED=0 KERNELS=10000
	$(BIN)/python tests/fuzz/main.py --seed $(SEED) --kernels $(KERNELS)

upstream: .venv-upstream/.made ## run public suites from clones, an hour; a stopped run goes on: make upstream UPSTREAM=folder [SUITES= SWEEPS=]
	.venv-upstream/bin/python tests/upstream/conformance.py $(UPSTREAM) $(SUITES) $(SWEEPS:%=--sweeps %)

accuracy: .venv-upstream/.made .venv-clients/.made ## compare estimates with published times of kernels, from clones, and models: make accuracy UPSTREAM=folder
	.venv-upstream/bin/python bench/accuracy/run.py $(UPSTREAM)
	.venv-clients/bin/python bench/accuracy/models/model_run.py
	.venv-clients/bin/python bench/accuracy/models/model_bounds.py

agree: .venv-clients/.made ## 20 models: every command that can be asked the same says the same, to 1 %; two hours; a stopped run goes on
	.venv-clients/bin/python tests/agree/agree.py

clients: .venv-clients/.made ## test released programs that know the device: transformers, Lightning, TRL and others
	.venv-clients/bin/python -m pytest --quiet tests/clients

cluster: .venv/.test ## run Kubernetes' and Slurm's own daemons on emulated nodes, as root on Debian: 12 minutes, 25 the first time
	$(BIN)/python tests/cluster/real/build_kubernetes.py
	$(BIN)/python tests/cluster/real/clusters.py $(PARTS)

release: .venv-release/.made ## the wheel, the source, a bill of materials and hashes: dist; nothing is uploaded
	.venv-release/bin/python tests/suite/release.py

clean: ## remove what was made
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache

build/checked/mypy: always
	$(BIN)/mypy

# This checker keeps no cache of its own.
build/checked/basedpyright: $(shell find src docs/makers -name '*.py') pyproject.toml .venv/.test
	$(BIN)/basedpyright --level error
	@mkdir -p $(@D) && touch $@

build/checked/source: always
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache >.venv/lint-imports.txt || (cat .venv/lint-imports.txt; false)
	$(BIN)/codespell src tests docs examples README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
	$(BIN)/python -m pytest -q tests/test_tiny.py tests/test_layout.py tests/test_chip.py tests/profile/report_page/test_types.py::test_the_scripts_are_typed

# Environments: .venv for people and tests, .venv-NAME for a kind of run.
PIP := -m pip --disable-pip-version-check install --quiet

.venv/.run: pyproject.toml constraints.txt src/_trnsim_finder.py
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --constraint constraints.txt --editable .
	@touch $@

.venv/.test: .venv/.run
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[torch,jax,test,check]'
	@touch $@

EXTRAS_upstream := torch,test,upstream
EXTRAS_clients := torch,test,clients
EXTRAS_platform := instance-clients
EXTRAS_jax := test,jax-suite
EXTRAS_release := release
EXTRAS_site := site
EXTRAS_notebook := torch,notebook
.venv-%/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python $(PIP) --constraint constraints.txt --editable '.[$(or $(EXTRAS_$*),$(error no environment .venv-$*))]'
	@touch $@

# Checkers of written job specs: ParallelCluster's schema, which needs an older marshmallow, OmegaConf,
# and moto, which takes and describes what AWS's services would.
.venv-specs/.made: Makefile
	$(PYTHON) -m venv .venv-specs
	.venv-specs/bin/python $(PIP) aws-parallelcluster==3.16.1 marshmallow==3.26.2 omegaconf==2.4.0 kubernetes-validate==1.37.0 'moto[batch,ecs,sagemaker]==5.2.5'
	@touch $@

# A minor version of JAX, such as 0.9; everything else as constraints.txt says.
.venv-jax-%/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-jax-$*
	sed -E 's/^(jax|jaxlib)==.*/\1==$*.*/' constraints.txt >.venv-jax-$*/constraints.txt
	.venv-jax-$*/bin/python $(PIP) --constraint .venv-jax-$*/constraints.txt --editable '.[jax]' flatbuffers hypothesis pytest
	@touch $@
