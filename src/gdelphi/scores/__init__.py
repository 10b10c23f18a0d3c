"""Proper scores of forecasts, as functions of arrays: Brier, log, CRPS, reliability, skill, ROUGE.

Knows only common; forecasts are chosen by them, and judged by them.
Start with probabilities.py.
"""
