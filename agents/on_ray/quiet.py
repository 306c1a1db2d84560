"""RLlib's log level on the terminal: errors only."""

import logging
import warnings

LOGGERS = ("ray.rllib", "ray.tune", "ray._common.deprecation")  # the last logs RLlib's own calls of deprecated methods


def quieten() -> None:
    """Silence RLlib's loggers below errors in this process; its `log_level` covers `Algorithm` and workers."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    # RLlib registers its environment anew for every algorithm of a process, such as those of several training seeds.
    warnings.filterwarnings("ignore", ".*Overriding environment rllib-", UserWarning)
