"""RLlib's log on a user's terminal: errors only."""

import logging

LOGGERS = ("ray.rllib", "ray._common.deprecation")  # the second tells of RLlib's calls of its own deprecated methods


def quieten() -> None:
    """Silence RLlib's loggers below errors in this process; its own `log_level` does so in `Algorithm` and workers."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
