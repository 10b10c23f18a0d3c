"""Questions that programs ask of what is stored: written once, for the HTTP API, for tools of
language models and for alerts.

Nothing is made here and no model is opened: forecasts, scores and reports are files, news are rows.
"""
