"""Check the hashes of the tasks, and write tables into docs/tasks.md.

python scripts/tasks.py                            # every task with its hash, and records of other source files
python scripts/tasks.py --write                    # put the hashes of the present versions into conf/task
python scripts/tasks.py --raise                    # raise the versions of all tasks by one, and do that
python scripts/tasks.py --tables                   # build the tables of docs/tasks.md from records
python scripts/tasks.py --tables runs/compare/*    # put tables of whole, unmodified tasks into docs/tasks.md
"""

import argparse
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from envs.evaluation.files import write_whole
from murmuration.config.errors import one_line_errors
from murmuration.home import ROOT
from murmuration.records.task_pages import (
    TASKS,
    check_task,
    collect_tables,
    describe_records,
    insert_table,
    recorded_tables,
    short_table,
    write_hash,
)


def write_tables(runs: list[Path], names: list[str]) -> None:
    """Write the tables of runs, or those of tasks that have records, into docs/tasks.md."""
    page = ROOT / "docs" / "tasks.md"
    for name, table in (collect_tables(runs) if runs else recorded_tables(names=names or TASKS)).items():
        write_whole(page, insert_table(page.read_text(encoding="utf-8"), name, short_table(table)))
        print(f"{name}: written into {page.relative_to(ROOT)}")


def main() -> None:
    """Print, check or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="task", help="names of tasks; default: all")
    parser.add_argument("--write", action="store_true", help="write the hash of the current version into conf/task")
    parser.add_argument("--raise", action="store_true", dest="higher", help="raise the version of the tasks by one too")
    parser.add_argument("--tables", nargs="*", type=Path, metavar="run", help="run folders; none: the records")
    with one_line_errors():
        arguments = parser.parse_args()
        if arguments.tables is not None:
            return write_tables(arguments.tables, arguments.tasks)
        for name in arguments.tasks or TASKS:
            check = check_task(name)
            if arguments.higher or (arguments.write and check.found):
                write_hash(check, version=check.task.version + arguments.higher)
                check = check_task(name)
            print(check.describe() + describe_records(check.task))


if __name__ == "__main__":
    main()
