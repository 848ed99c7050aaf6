"""What is said of many users' values: sums, moments and the figures that follow from them; numpy alone."""
