"""What the theory of attention on measures says about a trained model: one page of parts.

`inspect.py` is what `gdelphi inspect` does; `parts.py` lists the parts.
"""
