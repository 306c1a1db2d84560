"""List everything that can be chosen, by name with one line each.

python scripts/list.py
python scripts/list.py scheduler cluster --config-dir my_configs
"""

import argparse

import launch  # noqa: F401  the project's packages are found

# isort: split
from rich.table import Table

from envs.pictures.texts import wide_console
from experiments.performance.known import describe_models
from murmuration.config.choices import LISTED_GROUPS, describe_groups, option_of
from murmuration.config.errors import one_line_errors


def main() -> None:
    """Print the groups asked for, or all of them."""
    parser = argparse.ArgumentParser(description="List everything that can be chosen, by name with one line each.")
    parser.add_argument(
        "groups", nargs="*", metavar="group", help=f"one or more of {', '.join(LISTED_GROUPS)}; default: all"
    )
    parser.add_argument("--config-dir", "-cd", help="your own folder of configs, as the other scripts take it")
    with one_line_errors():
        arguments = parser.parse_args()
        table = Table(box=None, header_style="bold", padding=(0, 1))
        for head in ("choose by", "name", "description"):
            table.add_column(head, no_wrap=head != "description")
        for group, choices in describe_groups(arguments.groups, arguments.config_dir).items():
            for i, (name, line) in enumerate(choices.items()):
                table.add_row(option_of(group) if i == 0 else "", name, line, end_section=i == len(choices) - 1)
        wide_console().print(table)
        if not arguments.groups:
            models = Table(box=None, header_style="bold", padding=(0, 1), title="models of performance=default")
            for head in describe_models().columns:
                models.add_column(head)
            for row in describe_models().itertuples(index=False):
                models.add_row(*map(str, row))
            wide_console().print("", models)


if __name__ == "__main__":
    main()
