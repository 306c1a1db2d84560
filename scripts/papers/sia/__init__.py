"""Workloads and policies of Sia's simulator, beside what it publishes."""
