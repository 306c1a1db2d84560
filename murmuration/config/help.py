"""`--help` of the scripts, printed before anything that takes long to import."""

import sys
from pathlib import Path

from murmuration.config.schema import describe_keys
from murmuration.home import ROOT, SCRIPTS
from murmuration.streams import checked_output

FLAGS = {"--help", "-h"}


def answer_help() -> None:
    """Print the help of the script that was started, and leave; nothing if it was not asked for.

    Scripts without a primary config have a parser of their own.
    """
    started = sys.modules["__main__"]
    script = Path(str(getattr(started, "__file__", None) or "")).resolve()
    if FLAGS.isdisjoint(sys.argv[1:]) or script.parent != SCRIPTS or not config_of(script.stem).exists():
        return
    with checked_output():
        print(help_text(str(started.__doc__), script.stem))
        sys.exit(0)


def config_of(config_name: str) -> Path:
    """Return the file of a primary config."""
    return ROOT / "conf" / f"{config_name}.yaml"


def help_text(docstring: str, config_name: str) -> str:
    """Return the text of `--help`: the script's docstring, its settings and groups, and further flags."""
    path = config_of(config_name)
    return f"""{docstring.strip()}

Options are key=value. These are the keys, with their defaults:

{describe_keys(config_name)}

The groups that are chosen by name, under `defaults`, and what else is in conf/{path.name}:

{path.read_text(encoding="utf-8").strip()}

scripts/list.py       lists the choices of every group, such as cluster=small_16
--config-dir <folder> adds your own YAML files
--cfg job             prints the whole configuration and runs nothing
--multirun            runs every combination of values, as in seed=0,1,2
--hydra-help          explains further flags of Hydra"""
