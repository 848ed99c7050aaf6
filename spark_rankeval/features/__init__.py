"""Features of an evaluation: a room for each, with its code for Spark and for workers."""
