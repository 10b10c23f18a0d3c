"""The program: command line, nightly pipeline, promotion, run lock, notifications, doctor, demo.

Imports everything but the flows; nothing but the flows may import it.
Start with cli.py; `gdelphi X` is commands/X.py.
"""
