"""Sums, moments and the figures that follow from them, for the values of many users; needs only numpy."""
