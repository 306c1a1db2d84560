"""The command `murmuration`: the scripts under one name.

murmuration train experiment=demo
murmuration compare task=full-64 scheduler=all
"""

import difflib
import runpy
import sys
from pathlib import Path

import murmuration
from murmuration.home import SCRIPTS, open_home
from murmuration.streams import checked_output


def find_commands(scripts: Path = SCRIPTS) -> dict[str, Path]:
    """Return the scripts by name, sorted."""
    return {path.stem: path for path in sorted(scripts.glob("*.py"))}


def describe_commands(commands: dict[str, Path]) -> str:
    """Return the text of `murmuration --help`: each command with the first line of its docstring."""
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {_first_line(path)}" for name, path in commands.items()]
    return "\n".join(["murmuration <command> [key=value ...]", "", *lines, "", "murmuration <command> --help"])


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition('"""')[2].partition("\n")[0]


def main() -> None:
    """Run the script that the first word names, with the words after it."""
    with checked_output():
        _run()


def _run() -> None:
    name, rest = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    commands = find_commands()
    if name.replace("-", "_") in commands:
        name = name.replace("-", "_")
    if name in ("-h", "--help"):
        print(describe_commands(commands))
        return
    if name == "--version":
        print(murmuration.__version__)
        return
    if name not in commands:
        near = difflib.get_close_matches(name, commands, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        _stop(f"error: {name}: no such command{hint}; there are: {', '.join(commands)}")
    try:
        open_home()
    except ImportError as error:
        _stop(f"error: {error}")
    sys.argv = [str(commands[name]), *rest]
    runpy.run_path(str(commands[name]), run_name="__main__")


def _stop(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(2)
