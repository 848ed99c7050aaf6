"""Judges of the same items, who need not grade every label: a language model grades all of them, and people a part."""
