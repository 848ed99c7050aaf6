"""Figures of only the labels in a group of items."""
