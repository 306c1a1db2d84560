"""Comparison of Rubick's model with its public measurements: protocols and a report."""
