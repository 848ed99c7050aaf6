"""What a caller asks for: options, columns, metrics as a dialect reads them; no Spark and no kernels."""
