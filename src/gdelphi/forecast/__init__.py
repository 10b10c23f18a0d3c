"""From members to what is published: publisher, futures, arguments, explanation.

Uses the model and scores; judges nothing.
Start with predictor.py, then forecast.py, what `gdelphi forecast` does.
"""
