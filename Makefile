# Two commands do everything on a fresh machine, each setting up what it needs:
#   make demo   a small simulated world, from its archive to the judged forecasts
#   make test   all tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint format benchmark clean

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

DEMO := data/demo
demo: $(INSTALLED)
	rm -rf $(DEMO)
	$(BIN)/gdelphi world create --preset demo --out $(DEMO)/archive
	$(BIN)/gdelphi ingest --archive $(DEMO)/archive --store $(DEMO)/store.duckdb
	$(BIN)/gdelphi status --store $(DEMO)/store.duckdb --as-of 2021-09-11
	$(BIN)/gdelphi embed --store $(DEMO)/store.duckdb
	$(BIN)/gdelphi descriptor --stream SO --day 2021-09-10 --store $(DEMO)/store.duckdb
	$(BIN)/gdelphi sequences --number 1000 --store $(DEMO)/store.duckdb
	$(BIN)/gdelphi train --steps 100 --out $(DEMO)/model --store $(DEMO)/store.duckdb
	$(BIN)/gdelphi forecast --model $(DEMO)/model --streams SO --as-of 2021-09-11 --store $(DEMO)/store.duckdb --out $(DEMO)/forecasts
	$(BIN)/gdelphi backtest --model $(DEMO)/model --every 5 --futures 50 --no-text --world $(DEMO)/archive --out $(DEMO)/backtest --store $(DEMO)/store.duckdb
	@echo
	@echo "The store is $(DEMO)/store.duckdb. Ask it something:"
	@echo '  $(BIN)/gdelphi sql "select * from daily_counts limit 5" --store $(DEMO)/store.duckdb'

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(INSTALLED)
	$(BIN)/python benchmarks/ingest.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
