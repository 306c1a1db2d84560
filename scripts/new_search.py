"""Write evaluator.py, initial_program.py and config.yaml of a program search for OpenEvolve and SkyDiscover.

murmuration new-search my_search --task full-64
"""

import argparse
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from murmuration.config.errors import one_line_errors
from murmuration.programs.folder import write_search


def main() -> None:
    """Write the folder, and say how to begin."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet, or is empty")
    parser.add_argument("options", nargs="*", help="of the task, such as workload.load=0.8")
    parser.add_argument("--task", default="full-64", help="name of a task; default: full-64")
    with one_line_errors():
        given = parser.parse_intermixed_args()
        for line in write_search(given.folder, [given.task, *given.options]):
            print(line)


if __name__ == "__main__":
    main()
