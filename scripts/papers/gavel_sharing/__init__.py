"""Gavel's gain of letting two jobs share a GPU, beside the figures of its artifact."""
