"""Metrics of all lists together: in how many lists items stand, and what groups of items get."""
