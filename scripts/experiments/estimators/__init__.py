"""Calibration of the estimators of throughputs on held-out jobs."""
