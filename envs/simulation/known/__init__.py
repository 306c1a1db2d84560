"""What is known of the world: beliefs about throughputs, and predictions of what is left of jobs."""
