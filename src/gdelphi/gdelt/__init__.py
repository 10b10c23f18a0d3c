"""The outside: CAMEO codes and countries, layouts of files, archives, fetching, unpacking.

Knows only common; nothing here opens the store.
Start with archive.py: what a URL or a folder lists.
"""
