"""Comparison of Rubick's model with its public measurements: protocols, the paper's table of errors, and a report."""
