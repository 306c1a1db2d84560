"""The command `murmuration`: the scripts of the clone under one name.

murmuration train experiment=demo
murmuration compare task=full-64 scheduler=all
"""

import difflib
import runpy
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"
NO_SCRIPTS = (
    "error: this installation has the library only (envs, baselines, agents, deployment): no scripts and no "
    "configuration; clone the repository and install it in place with  pip install -c constraints.txt -e ."
)


def find_commands(scripts: Path = SCRIPTS) -> dict[str, Path]:
    """Return the scripts by name, sorted; empty if there is no clone."""
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
    name, rest = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    commands = find_commands()
    if not commands:
        _stop(NO_SCRIPTS)
    if name in ("-h", "--help"):
        print(describe_commands(commands))  # noqa: T201  a command's output
        return
    if name not in commands:
        near = difflib.get_close_matches(name, commands, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        _stop(f"error: {name}: no such command{hint}; there are: {', '.join(commands)}")
    sys.argv = [str(commands[name]), *rest]
    sys.path.insert(0, str(SCRIPTS))
    runpy.run_path(str(commands[name]), run_name="__main__")


def _stop(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201
    sys.exit(2)


if __name__ == "__main__":
    main()
