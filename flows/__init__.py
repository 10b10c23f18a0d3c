"""Prefect flows: thin shells over the library's functions, installed as `gdelphi_flows`."""
