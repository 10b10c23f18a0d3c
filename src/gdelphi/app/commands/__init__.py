"""One file for each command: `gdelphi X` is X.py, with its arguments, the call, and what it prints.

Imported by app/cli.py alone, which fixes the order of the help.
Start with ingest.py; a module's first line names the stage that does the work.
"""
