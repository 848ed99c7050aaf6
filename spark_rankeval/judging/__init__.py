"""Judges of relevance, people and language models: how far their grades agree, and whether the order of models does."""
