"""Users whose right answer is nothing: a column, or a table of them."""
