"""Names of lines and charts in TensorBoard."""

POLICY, IMITATION, BOUND_LINE = "policy", "imitation", "lower_bound"
OVERVIEW = "0_overview"  # the group that TensorBoard shows first, as it sorts by name
HEADLINE = f"{OVERVIEW}/validation_mean_jct_hours"
RATIO_TAG = f"{OVERVIEW}/validation_ratio_to_best"  # of policies and baselines, over many worlds
GAIN = f"{OVERVIEW}/validation_gain_percent"  # of policies that bid and of baselines, over the market alone
WORKER_SECONDS = "throughput/worker_cpu_seconds"  # of an iteration, spent by workers on Ray
RETURN = "train/return"  # sum of the environment's rewards over an episode, undiscounted
LENGTH = "train/episode_length"  # environment steps of an episode
ENV_STEPS = "train/env_steps"  # environment steps of an iteration
PROGRESS = "progress"  # group of what a run has cost so far, see `AXES`
AXES = ("env_steps", "cpu_seconds", "wall_seconds")  # since the start, with imitation and without validation
