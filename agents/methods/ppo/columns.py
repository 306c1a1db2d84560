"""Columns of sampled steps, in addition to RLlib's own."""

ELAPSED = "elapsed"  # simulated seconds that the step took
NODE_LOGP = "node_logp"  # log-probability of each node's choice at sampling
AGAINST_GROUP = "against_group"  # advantage against other episodes of the same workload, from `GroupRunner`
