"""What many runs of a job left: how their figures went, and which of them are good enough."""
