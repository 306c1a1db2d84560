"""Convert the jobs of any trace to the schema murmuration-jobs-1, as CSV or Parquet.

python scripts/convert_jobs.py jobs.txt jobs.csv
python scripts/convert_jobs.py pods.json jobs.parquet workload=kubernetes
python scripts/convert_jobs.py jobs.txt jobs.csv workload=slurm workload.reader.timezone=Europe/Berlin
"""

import argparse
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from murmuration.config.errors import one_line_errors
from murmuration.runs.converting import read_any_trace, write_jobs


def main() -> None:
    """Read, write, and say what was left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, help="file or folder of the trace")
    parser.add_argument("out", type=Path, help="the file to write; its ending is .csv or .parquet")
    parser.add_argument("options", nargs="*", help="workload=<reader>, default slurm, and workload.reader.<option>=...")
    parser.add_argument("--config-dir", "-cd", help="your own folder of configs, as the other scripts take it")
    with one_line_errors():
        arguments = parser.parse_args()
        table, report = read_any_trace(arguments.trace, arguments.options, arguments.config_dir)
        write_jobs(arguments.out, table)
        for line in (
            report.summary(),
            *report.notes,
            f"{arguments.out}: {len(table):,} jobs: {', '.join(table.columns)}",
        ):
            print(line)


if __name__ == "__main__":
    main()
