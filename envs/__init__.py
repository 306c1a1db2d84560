"""The world: cluster, workloads, performance, simulation, metrics, and its PettingZoo face. Never torch, ray, hydra."""
