"""How good forecasts are: backtests over past days, scores of stored forecasts, tables.

Takes any Forecaster; nothing that forecasts may import it.
Start with backtest.py, what `gdelphi backtest` does.
"""
