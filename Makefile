# Two commands to start with: `make demo` and `make test`. Everything is installed into .venv by the stamp below.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
export OPENBLAS_NUM_THREADS = 1
export OMP_NUM_THREADS = 1
export MKL_NUM_THREADS = 1
# Byte code is kept, whatever the surroundings say: tests start many processes, and each would compile the package again.
export PYTHONDONTWRITEBYTECODE =

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint check format soak soak-short bench docs screenshots wheel release-check sbom clean

demo: $(STAMP)
	$(BIN)/aegis demo

test: $(STAMP)
	$(BIN)/python -m pytest -m "not soak and not ci"

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: $(STAMP)
	$(BIN)/python -m pytest -m "soak or ci" --durations=10

soak-short: $(STAMP)
	$(BIN)/python -m pytest -m ci
	AEGIS_SOAK=short $(BIN)/python -m pytest -m soak tests/soak tests/mutation

# Every comparison side by side, times last: needs two hours, a quiet machine, 20 GB of disk and, for the peers' environments, the network.
bench: $(STAMP)
	cd benchmarks && failed= && for part in looks continuous bounds peers large_logs growth profiles; do \
		../$(BIN)/python $$part.py || failed="$$failed $$part"; done; \
	test -z "$$failed" || { echo "Not measured:$$failed" >&2; exit 1; }

# The site from docs/*.md: reference and references are written again; a link, an anchor or a formula that is wrong fails.
docs: $(STAMP)
	$(BIN)/python docs/tools/doc_write.py
	$(BIN)/python -m properdocs build --strict --clean
	@echo "The documentation is in build/site: open build/site/index.html in a browser."

# The pictures of docs/commands.md and the README; the report needs Chromium.
screenshots: $(STAMP)
	$(BIN)/python tools/screenshots.py

wheel: $(STAMP)
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# The wheel in empty environments of every Python 3.11, 3.12 and 3.13 that is found: needs the network and some minutes for each.
release-check: wheel
	$(BIN)/python tools/release_check.py

# The parts list (CycloneDX) of what `pip install 'aegis-handover[service,postgres]'` brings, at the versions of constraints.txt. Needs the network, not .venv.
# The wheel is installed a second time by its name: the first time notes the path of this folder, which would be in the list.
sbom:
	rm -rf build/sbom build/sbom.cdx.json
	$(PYTHON) -m venv build/sbom/tool
	$(PYTHON) -m venv --without-pip build/sbom/gate
	build/sbom/tool/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
	build/sbom/tool/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/sbom .
	build/sbom/tool/bin/python -m pip --python build/sbom/gate/bin/python install --quiet --disable-pip-version-check \
		-c constraints.txt "$$(ls build/sbom/*.whl)[service,postgres]"
	build/sbom/tool/bin/python -m pip --python build/sbom/gate/bin/python install --quiet --disable-pip-version-check \
		--no-index --no-deps --force-reinstall --find-links build/sbom aegis-handover
	build/sbom/tool/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-format JSON \
		--output-file build/sbom.cdx.json build/sbom/gate/bin/python
	@echo "The parts list is in build/sbom.cdx.json."

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist demo-run
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt setup.sh
	PYTHON=$(PYTHON) bash setup.sh
	touch $(STAMP)
