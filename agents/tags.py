"""Names of lines and charts in TensorBoard."""

POLICY, IMITATION, BOUND_LINE, MARKET_LINE = "policy", "imitation", "lower_bound", "market_without_bids"
OVERVIEW = "0_overview"  # the group that TensorBoard shows first, as it sorts by name
HEADLINE = f"{OVERVIEW}/validation_mean_jct_hours"
GAIN = f"{OVERVIEW}/validation_gain_percent"  # of policies that bid, over the market alone
