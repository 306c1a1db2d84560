"""Synergy's comparison of mechanisms (OSDI'22) in this simulator."""
