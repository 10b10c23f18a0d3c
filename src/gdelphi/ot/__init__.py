"""Transport on the unit sphere: Sinkhorn, sliced and exact distances, few-atom summaries.

Knows only common; takes and gives arrays and tensors.
Start with entropic.py, the Sinkhorn divergence.
"""
