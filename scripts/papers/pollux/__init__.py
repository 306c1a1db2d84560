"""Workloads and policies of Pollux's simulator, beside its published results."""
