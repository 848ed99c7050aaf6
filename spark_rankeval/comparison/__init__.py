"""Models side by side on the same users: which is better, by how much, and whether it is noise."""
