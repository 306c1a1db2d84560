"""Values that change in the course of a run."""


def falling(value: float, final: float, iteration: int, iterations: int) -> float:
    """Return a value that falls linearly to the fraction `final` of itself within so many iterations."""
    done = min(iteration / iterations, 1.0)
    return value * (1.0 - done * (1.0 - final))
