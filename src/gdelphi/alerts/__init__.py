"""Telling somebody that a forecast has changed: rules, what they find, and what came of it."""
