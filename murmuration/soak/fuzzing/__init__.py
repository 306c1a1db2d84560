"""Changed inputs for everything that reads what strangers write: drawn from a random seed, counted, never trusted."""
