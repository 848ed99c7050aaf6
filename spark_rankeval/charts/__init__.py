"""Which figures go into which chart, and how they are drawn: with Altair, so that a caller can change them."""
