"""RLlib's log on a user's terminal: errors only."""

import logging

LOGGERS = ("ray.rllib", "ray.tune", "ray._common.deprecation")  # the last tells of their calls of deprecated methods


def quieten() -> None:
    """Silence RLlib's loggers below errors in this process; its own `log_level` does so in `Algorithm` and workers."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
