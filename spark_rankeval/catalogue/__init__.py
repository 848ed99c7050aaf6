"""The whole catalogue, ranked for each user by scores from vectors: exact, by counting, in blocks of bounded memory."""
