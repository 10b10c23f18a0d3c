"""GDELT as it is published: layouts of its files, lists of its archives, fetching, unpacking."""
