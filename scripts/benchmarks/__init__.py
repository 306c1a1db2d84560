"""What `scripts/benchmark.py` measures, one part a file; `suite.py` says how much of it, `report.py` keeps the figures.

Everything is timed by process CPU time on one thread, the best of several repeats. Ratios are between things timed in
the same run on the same machine. Counts of events and decisions are held against each other, so that speed is never
bought with skipped work.
"""
