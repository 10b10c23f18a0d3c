"""The measure transformer: network, losses, one training loop, checkpoints, sampling of futures.

Reads packs of measures; knows no baseline and no report.
Start with network.py, then train.py, what `gdelphi train` does.
"""
