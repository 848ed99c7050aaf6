"""What a batch job needs, inside the package, so that a zip alone is enough in cluster mode."""
