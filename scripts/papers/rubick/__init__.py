"""The scheduling experiment of Rubick, its lower bound, and the choice of two parameters on drawn workloads."""
