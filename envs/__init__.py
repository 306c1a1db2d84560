"""The world: cluster, workloads, performance, simulation, metrics, and the PettingZoo face of it. Never torch, ray or hydra."""
