"""The stages of a retrieval: where labelled items stand in the lists of a model and of those before it."""
