"""Write the jobs of a trace without names of users, accounts, scripts and nodes, at other dates.

python scripts/anonymise.py jobs.txt jobs.csv
python scripts/anonymise.py jobs.txt jobs.parquet --also queue pool qos features
"""

import argparse
import secrets
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from envs.types import as_line
from envs.workloads.anonymise import KEPT, SECRET_BYTES, anonymise_jobs
from murmuration.config.errors import one_line_errors
from murmuration.runs.converting import read_any_trace, write_jobs


def main() -> None:
    """Read, replace, write, and show the texts that were kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, help="file or folder of the trace")
    parser.add_argument("out", type=Path, help="the file to write; its ending is .csv or .parquet")
    parser.add_argument("options", nargs="*", help="workload=<reader>, default slurm, and workload.reader.<option>=...")
    parser.add_argument("--also", nargs="+", default=[], help=f"further columns to replace: {', '.join(KEPT)}")
    parser.add_argument("--config-dir", "-cd", help="your own folder of configs, as the other scripts take it")
    with one_line_errors():
        arguments = parser.parse_args()
        table, report = read_any_trace(arguments.trace, arguments.options, arguments.config_dir)
        table = anonymise_jobs(table, secrets.token_bytes(SECRET_BYTES), arguments.also)
        write_jobs(arguments.out, table)
        print(report.summary())
        for column in (*KEPT, "gpu_type", "ran_on", "model"):
            if column in table and column not in arguments.also:
                texts = sorted(set(table[column]) - {""})
                more = f" and {len(texts) - 8:,} others" if len(texts) > 8 else ""
                print(as_line(f"kept as it is: {column}: {', '.join(texts[:8])}{more}"))
        print(f"{arguments.out}: {len(table):,} jobs")


if __name__ == "__main__":
    main()
