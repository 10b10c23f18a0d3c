"""The inside: one DuckDB file, its schema, ledger, loading, ingestion, status.

The one place that imports duckdb (connection.py).
Start with ingest.py, what `gdelphi ingest` does; ledger.py knows every file.
"""
