"""Groups of different users, as an A/B test has them: which is better, by how much, and whether it is noise."""
