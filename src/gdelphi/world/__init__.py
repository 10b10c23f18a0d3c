"""A simulated world with a known truth: its laws, its news, its archive."""
