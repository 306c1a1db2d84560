"""Kubernetes as a cluster manager: the adapter of the bridge, and a test cluster with a real API server."""
