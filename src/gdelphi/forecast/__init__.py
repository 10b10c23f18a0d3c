"""From members to what is published: baselines, stack, publisher, futures, arguments, explanation.

Uses the model and scores; judges nothing.
Start with predictor.py, then forecast.py, what `gdelphi forecast` does.
"""
