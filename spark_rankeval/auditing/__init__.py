"""Audits: what training, labels and predictions have in common that they should not."""
