"""The adapter to Slurm: its commands, what they print, and a test cluster on one machine."""
