"""Replay a cluster's trace as it was scheduled, check it against what happened, and play alternatives.

murmuration what-if jobs.txt --slurm-conf slurm.conf
murmuration what-if jobs.txt --cluster lab --policy fifo_easy --load 1.2 --nodes +2xH100
"""

import launch  # noqa: F401  the project's packages are found

# isort: split
from murmuration.config.errors import one_line_errors
from murmuration.what_if.asking import ask


def main() -> None:
    """WhatIfAnswer what is asked."""
    with one_line_errors():
        ask()


if __name__ == "__main__":
    main()
