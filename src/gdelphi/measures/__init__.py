"""From events to measures: phrases, encoder, clouds on the sphere, descriptors, profiles, packs.

Reads the store; only encoder.py imports sentence_transformers.
Start with embed.py, what `gdelphi embed` does.
"""
