# Every target makes what it needs; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
# Tests start hundreds of interpreters; each would compile the source anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help run test nightly check check-types check-more-types check-source tiny bench compiled graphs plans docs fuzz peaks accuracy estimating golden upstream digest clients platform agree models compiled-models compiling claims fabric collectives pilots foldings serving jax-suite jax-versions launch-suite opinfo mutants size state clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/.made:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.run: .venv/.made pyproject.toml constraints.txt src/_trnsim_finder.py
	$(PIP) --constraint constraints.txt --editable .
	@touch $@

.venv/.test: .venv/.run
	$(PIP) --constraint constraints.txt --editable '.[torch,jax,test,check]'
	@touch $@

run: .venv/.run ## install without torch or jax, and print the demo
	@$(BIN)/trnsim demo

test: .venv/.test ## install what tests need, run checks and every test but the slow ones: six minutes on two cores
	@rm -rf build/test-costs
	$(BIN)/python tests/suite/fast.py; status=$$?; \
		$(BIN)/python tests/suite/costs.py build/test-costs build/test-costs.md; exit $$status

# At most 100 minutes on two idle cores; what passed stands in build/nightly.
nightly: .venv/.test ## every test, slow ones too, then mutants, random kernels and other long checks; a stopped run goes on
	$(BIN)/python tests/suite/nightly.py

check: .venv/.test ## format, lint, types, layers, spelling, the shape of the house, and the tests a newcomer runs first
	@$(MAKE) --no-print-directory --jobs=2 check-types check-more-types check-source

# The two checkers of types are most of a check, and each runs on one core.
check-types:
	$(BIN)/mypy

check-more-types: build/checked/basedpyright

# This checker keeps no cache of its own.
build/checked/basedpyright: $(shell find src docs/makers -name '*.py') pyproject.toml .venv/.test
	$(BIN)/basedpyright --level error
	@mkdir -p $(@D) && touch $@

check-source:
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache >.venv/lint-imports.txt || (cat .venv/lint-imports.txt; false)
	$(BIN)/codespell src tests docs examples README.md CHANGELOG.md
	$(BIN)/python -m pytest -q tests/test_tiny.py tests/test_layout.py tests/test_chip.py tests/profile/page/test_types.py::test_the_scripts_are_typed

tiny: .venv/.test ## the tests that a newcomer runs first, under 10 s
	$(BIN)/python -m pytest tests/test_tiny.py

state: .venv/.test ## 64 processes that keep a state are killed at random for a minute, while it is read
	$(BIN)/python tests/instance/state/swarm.py 60

bench: .venv/.test ## time the emulator against plain numpy and PyTorch, as ratios in one run
	$(BIN)/python bench/run.py
	$(BIN)/python bench/torch_steps.py
	$(BIN)/python bench/watch.py
	$(BIN)/python bench/imports.py
	$(BIN)/python bench/ranks.py
	$(BIN)/python bench/jax_dispatch.py
	$(BIN)/python bench/estimating.py

SEED ?= 0
KERNELS ?= 10000
fuzz: .venv/.test ## random kernels against an oracle: make fuzz SEED=0 KERNELS=10000
	$(BIN)/python tests/fuzz/main.py --seed $(SEED) --kernels $(KERNELS)

UPSTREAM ?= ../upstream
.venv-upstream/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-upstream
	.venv-upstream/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints.txt --editable '.[torch,test,upstream]'
	@touch $@

docs: .venv/.test ## write the pages of docs that are made from the source
	$(BIN)/python docs/makers/pages.py

golden: docs ## put what is printed today into README, the tutorial and the pages of docs
	$(BIN)/python tests/test_docs.py

peaks: .venv/.test ## documented peaks, reached by running kernels
	$(BIN)/python bench/peaks.py

accuracy: .venv-upstream/.made .venv-clients/.made ## compare estimates with published times of kernels, from clones, and models: make accuracy UPSTREAM=folder
	.venv-upstream/bin/python bench/accuracy/run.py $(UPSTREAM)
	.venv-clients/bin/python bench/accuracy/models/model_run.py
	.venv-clients/bin/python bench/accuracy/models/model_bounds.py

graphs: .venv-clients/.made ## what networks without a formula compute, for their fit
	.venv-clients/bin/python bench/system/graphs.py

plans: .venv/.test ## fit the constants of plans anew, write docs/accuracy-models.md, and rows of published figures
	$(BIN)/python bench/system/rows.py
	$(BIN)/python bench/system/page.py

claims: .venv/.test ## rates of ten workloads by the planner, for trnsim claims; then every rate and every deleted row
	$(BIN)/python bench/system/claims.py
	TRNSIM_CLAIMS=all $(BIN)/python -m pytest --quiet tests/system/claims

estimating: .venv-upstream/.made ## what an estimate costs, kernels of nki-library included: make estimating UPSTREAM=folder
	.venv-upstream/bin/python bench/estimating.py $(UPSTREAM)

# An hour on two cores. SUITES="D1 D5-trn2" runs those; SWEEPS=200 samples the longest; a stopped run goes on.
upstream: .venv-upstream/.made ## run public suites from clones: make upstream UPSTREAM=folder [SUITES= SWEEPS=]
	.venv-upstream/bin/python tests/upstream/conformance.py $(UPSTREAM) $(SUITES) $(SWEEPS:%=--sweeps %)

# PYTHONPATH=OTHER/src digests another checkout; `digest.py --compare A.json B.json` sets two side by side.
digest: .venv-upstream/.made ## values, times, refusals and plans of all development suites: make digest UPSTREAM=folder [PARTS= SWEEPS=]
	.venv-upstream/bin/python tests/upstream/digest.py $(UPSTREAM) $(PARTS) $(SWEEPS:%=--sweeps %)

.venv-clients/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints.txt --editable '.[torch,test,clients]'
	@touch $@

# JAX's oldest and newest minor versions, and those between; everything else as constraints.txt says.
JAX_VERSIONS ?= 0.8 0.9 0.10
.venv-jax-%/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-jax-$*
	sed -E 's/^(jax|jaxlib)==.*/\1==$*.*/' constraints.txt >.venv-jax-$*/constraints.txt
	.venv-jax-$*/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint .venv-jax-$*/constraints.txt --editable '.[jax]' flatbuffers hypothesis pytest
	@touch $@

jax-versions: $(JAX_VERSIONS:%=.venv-jax-%/.made) ## the platform and the importer with each tested minor version of JAX
	@for found in $(JAX_VERSIONS); do .venv-jax-$$found/bin/python -m pytest --quiet tests/jax_versions \
		&& JAX_PLATFORMS=cpu .venv-jax-$$found/bin/python -m pytest --quiet tests/jax/stablehlo || exit; done

.venv-jax/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints.txt --editable '.[test,jax-suite]'
	@touch $@

# SUITES="lax_test nn_test" runs those; what was run stands in build/jax-suite, and a stopped run goes on.
jax-suite: .venv-jax/.made ## JAX's own tests, from a clone at the installed version's tag; writes docs/jax-conformance.md
	.venv-jax/bin/python tests/jax_suite/jax_conformance.py $(UPSTREAM) $(SUITES)

launch-suite: .venv/.test ## two times eight ranks as processes: the commands of docs/launch.md, which print what it shows
	$(BIN)/python -m pytest --quiet tests/launch/suite.py

clients: .venv-clients/.made ## test released programs that know the device: transformers, Lightning, TRL and others
	.venv-clients/bin/python -m pytest --quiet tests/clients

.venv-platform/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-platform
	.venv-platform/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints.txt --editable '.[instance-clients]'
	@touch $@

# Four minutes on two cores. Two clients come by path from clones: make platform UPSTREAM=folder.
platform: .venv-platform/.made ## test released programs that find and watch devices: Ray, Datadog, Prometheus and others
	TRNSIM_UPSTREAM="$(abspath $(UPSTREAM))" .venv-platform/bin/python -m pytest --quiet \
		--numprocesses=2 --dist=loadfile tests/platform

# Two hours on one core; what was asked stands in build/agree, and a stopped run goes on.
agree: .venv-clients/.made ## 20 models: every command that can be asked the same says the same, to 1 %
	.venv-clients/bin/python tests/agree/agree.py

models: .venv-clients/.made ## write docs/models.md: every architecture of transformers; a stopped run goes on
	.venv-clients/bin/python tests/clients/models.py

compiled-models: .venv-clients/.made ## write docs/compiled-models.md: the same as programs; a stopped run goes on
	.venv-clients/bin/python tests/clients/compiled_models.py

compiling: .venv-clients/.made ## models as one program beside published times or their bound; seconds and memory of compiling
	.venv-clients/bin/python bench/compiled_models.py

RANKS ?= 4096
fabric: .venv/.test ## collectives by events beside their closed form: make fabric RANKS=4096
	$(BIN)/python bench/fabric.py
	$(BIN)/python bench/fabric.py --ranks $(RANKS)

PROGRAMS ?= 2000
collectives: .venv/.test ## random programs of collectives against numpy, and in other orders: make collectives PROGRAMS=2000
	TRNSIM_PROGRAMS=$(PROGRAMS) $(BIN)/python -m pytest --quiet tests/isa/collectives/test_programs.py

pilots: .venv/.test ## 100 pilots of two companies with hidden factors, each with the decision of the truth
	TRNSIM_PILOT_CASES=100 $(BIN)/python -m pytest -q tests/decide/pilot/test_renew.py -k hidden

foldings: .venv/.test ## random layouts to 4,096 ranks, with every rank of its own beside the folded step
	TRNSIM_FOLDINGS=20 TRNSIM_FOLDING_NODES=64 $(BIN)/python -m pytest tests/system/train/test_folding.py

serving: .venv/.test ## requests through a server step by step: 100,000 on one replica in 60 s
	$(BIN)/python bench/serving.py

# An hour at most; what was checked stands in build/opinfo, and a stopped run goes on.
opinfo: .venv/.test ## PyTorch's own samples of every operator on the device; writes docs/torch-ops.md
	$(BIN)/python tests/opinfo/conform.py $(KINDS:%=--kinds %)

# A quarter of an hour on two cores; what was caught stands in build/mutants, and a stopped run goes on.
mutants: .venv/.test ## 56 faults in a copy of the source, each with the test that notices it
	$(BIN)/python tests/mutants/mutants.py $(ROOMS:%=--rooms %)

size: ## lines of each room
	@for d in src/trnsim/*/; do printf '%6d %s\n' $$(find $$d -name '*.py' | xargs cat | wc -l) $$d; done

clean: ## remove what was made
	rm -rf .venv .venv-upstream .venv-clients .venv-jax .venv-jax-* .venv-platform build dist .mypy_cache .ruff_cache .pytest_cache
