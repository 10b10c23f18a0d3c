"""Words: phrases read back into codes, days as texts, and the two models that write them."""
