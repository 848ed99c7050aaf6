"""Lists that are the whole catalogue, ranked by scores from vectors."""
