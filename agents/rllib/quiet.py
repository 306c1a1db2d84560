"""RLlib's log level on the terminal: errors only."""

import logging

LOGGERS = ("ray.rllib", "ray.tune", "ray._common.deprecation")  # the last logs RLlib's own calls of deprecated methods


def quieten() -> None:
    """Silence RLlib's loggers below errors in this process; its `log_level` covers `Algorithm` and workers."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
