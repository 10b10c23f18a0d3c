# On a fresh machine each of these sets up what it needs:
#   make demo   a small simulated world, from its archive to the report
#   make test   all tests; lint and types are among them
#   make quick  the tests that take no time, for work on the code
#   make test-duckdb DUCKDB=2.0.0   the store's tests with another DuckDB
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)  # tests wait now and then

export PYTHONDONTWRITEBYTECODE :=  # else a hundred processes of the tests each compile all modules

DUCKDB ?= 2.0.0
TESTS ?= tests/store tests/measures/test_cloud_update.py

.PHONY: demo test quick lint format benchmark audit clean test-duckdb

$(INSTALLED): pyproject.toml constraints.txt
	@.ci/install $(VENV) $(PYTHON) && touch $@

demo: $(INSTALLED)
	$(BIN)/gdelphi demo --out data/demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

quick: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow"

# The store's tests with another DuckDB, which lies before everything else of $(VENV).
test-duckdb: $(INSTALLED)
	@test -x $(VENV)-duckdb/bin/python || $(PYTHON) -m venv $(VENV)-duckdb
	@$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
	> "$$($(VENV)-duckdb/bin/python -c 'import site; print(site.getsitepackages()[0])')/gdelphi.pth"
	$(VENV)-duckdb/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "duckdb==$(DUCKDB)"
	$(VENV)-duckdb/bin/python -m pytest -q $(TESTS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(INSTALLED)
	$(BIN)/python benchmarks/ingest.py

audit: $(INSTALLED)
	$(BIN)/python docs/audit.py build/sbom.json

clean:
	rm -rf $(VENV) $(VENV)-duckdb build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
