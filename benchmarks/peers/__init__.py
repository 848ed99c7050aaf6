"""Other evaluators on the same files, each a script for an environment of its own: none of them imports this project."""
