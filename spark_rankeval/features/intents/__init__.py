"""What labels are about: a column of theirs, or the categories of their items."""
