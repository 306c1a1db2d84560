"""What several schedulers share: orders, places, sizes, estimates, rounds, programs."""
