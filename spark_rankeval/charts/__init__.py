"""Charts of results and comparisons. They are drawn with Altair, so that a caller can change them."""
