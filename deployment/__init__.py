"""Schedulers on real clusters: a protocol, a bridge that carries out allocations, adapters to Slurm and Kubernetes."""
