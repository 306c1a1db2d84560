"""What every script imports first: the project's packages are found, and `--help` is answered before slow imports."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # in a clone, its own `murmuration`

from murmuration.home import open_home

open_home()

from murmuration.config.help import answer_help  # noqa: E402

answer_help()  # the imports below take seconds

from murmuration.runs.commands import command  # noqa: E402

__all__ = ["command"]
