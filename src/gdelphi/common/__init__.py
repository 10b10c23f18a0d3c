"""What every package needs: errors, types, settings, files, workers, progress, splits.

Imports nothing of gdelphi; anybody may import it.
Start with types.py: what a Forecast and a Forecaster are.
"""
