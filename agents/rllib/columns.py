"""Columns of sampled steps beside RLlib's own."""

ELAPSED = "elapsed"  # simulated seconds that the step took
SERVER_LOGP = "server_logp"  # log-probability of each server's choice when it was made
AGAINST_GROUP = "against_group"  # advantage against other episodes of the same workload, from runners that know them
