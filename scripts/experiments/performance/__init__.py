"""Comparison of predictions with measurements, and the result type of a reproduction of a published table."""
