"""Forecasters without a network: baselines, intensity, trees, regressions, and their combination.

Uses measures; the network starts from what this package says.
Start with linear.py, then fit.py, which puts everything together.
"""
