"""The experiments of sampling-based matching: random instances, exact optima, bounds and the tables of gaps."""
