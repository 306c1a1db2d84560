"""Check the hashes of the tasks, and write their tables into baselines/records.

python scripts/tasks.py                            # every task with its hash, and records of other source files
python scripts/tasks.py --write                    # put the hashes of the present versions into conf/task
python scripts/tasks.py --raise                    # raise the versions of all tasks by one, and do that
python scripts/tasks.py --tables                   # build the tables from records; the site has a page for each
"""

import argparse

import launch  # noqa: F401  the project's packages are found

# isort: split
from envs.evaluation.files import write_whole
from murmuration.config.errors import one_line_errors
from murmuration.records.recorded import RECORDS_FOLDER
from murmuration.records.task_pages import (
    TABLE_SUFFIX,
    TASKS,
    check_task,
    describe_records,
    recorded_tables,
    write_hash,
)


def write_tables(names: list[str]) -> None:
    """Write the tables of tasks that have valid records; delete those of tasks without."""
    for name, table in recorded_tables(names=names).items():
        path = RECORDS_FOLDER / f"{name}{TABLE_SUFFIX}"
        if table:
            write_whole(path, table)
            print(f"{name}: written into {path.name}")
        else:
            path.unlink(missing_ok=True)


def main() -> None:
    """Print, check or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="task", help="names of tasks; default: all")
    parser.add_argument("--write", action="store_true", help="write the hash of the current version into conf/task")
    parser.add_argument("--raise", action="store_true", dest="higher", help="raise the version of the tasks by one too")
    parser.add_argument("--tables", action="store_true", help="build tables from the records")
    with one_line_errors():
        arguments = parser.parse_args()
        if arguments.tables:
            return write_tables(arguments.tasks or TASKS)
        for name in arguments.tasks or TASKS:
            check = check_task(name)
            if arguments.higher or (arguments.write and check.found):
                write_hash(check, version=check.task.version + arguments.higher)
                check = check_task(name)
            print(check.describe() + describe_records(check.task))


if __name__ == "__main__":
    main()
