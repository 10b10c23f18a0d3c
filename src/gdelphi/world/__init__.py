"""A simulated world with known probabilities: its law, its news as an archive, its oracles.

Speaks of archives and histories like any other source; no model knows it.
Start with law.py, the equations.
"""
