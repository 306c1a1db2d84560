"""Everything there is to choose from, by name with one line each: python scripts/list.py [group ...]."""

import argparse

from rich.console import Console
from rich.table import Table

from launch.catalogue import GROUPS, described
from launch.errors import one_line_errors


def main() -> None:
    """Print the groups asked for; all of them if none is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="group", help=f"one or more of {', '.join(GROUPS)}; all if none")
    with one_line_errors():
        table = Table(box=None, header_style="bold", padding=(0, 1))
        for head in ("choose by", "name", "what it is"):
            table.add_column(head, no_wrap=head != "what it is")
        for group, choices in described(parser.parse_args().groups):
            for i, (name, line) in enumerate(choices):
                table.add_row(f"{group}=" if i == 0 else "", name, line, end_section=i == len(choices) - 1)
        Console().print(table)


if __name__ == "__main__":
    main()
