"""Facts of items and of users from tables beside predictions and labels: joined to rows, or looked up by workers."""
