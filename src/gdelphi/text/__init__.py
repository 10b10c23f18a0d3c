"""Days as text: the T5 text forecaster, and the namer that turns points into phrases.

Trained by the loop of model; its forecasts are members like others.
Start with forecaster.py.
"""
