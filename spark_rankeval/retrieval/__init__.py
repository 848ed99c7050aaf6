"""Stages of a retrieval: which one loses the relevant items, and what the others could still reach."""
