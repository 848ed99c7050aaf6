"""What comes out of evaluations and comparisons, as plain frozen rows; they hold figures and compute few."""
