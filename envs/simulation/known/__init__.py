"""Beliefs about throughputs, and predictions of the remaining work of jobs."""
