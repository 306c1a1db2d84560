"""Parts that several schedulers share: orders, placements, sizes, estimates, rounds, integer programs."""
