"""The measurements of `scripts/benchmark.py`; `suite.py` says how much is measured, `report.py` keeps the figures.

Everything is timed by process CPU time on one thread, the best of several repeats. Ratios are between things timed in
the same run on the same machine. Counts of events and decisions are compared with each other, so that a run
cannot become faster by skipping work.
"""
