"""From raw lists of many users to one ranked batch, which metrics read; numpy alone."""
