"""The morning report: page, Markdown, JSON, CSV, feed; content.py says what it consists of.

Reads forecasts, scores and the store; computes no forecast.
Start with report.py, what `gdelphi report` does.
"""
