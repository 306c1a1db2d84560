"""Compare scheduler=slurm with a recording of a real Slurm: order of starts, mean wait, and a table of all jobs.

python scripts/slurm_recording.py tests/golden/slurm_22_05
python scripts/slurm_recording.py runs/slurm_recording --clock 2026-12-01T10:00:03 --out runs/compared
python scripts/slurm_recording.py runs/slurm_recording --again runs/slurm_recorded_again
"""

import argparse
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from envs.evaluation.files import write_frame
from experiments.slurm_recording import FORMS, compare_recording, compare_recordings, read_recording, scheduler_of
from murmuration.config.errors import one_line_errors


def main() -> None:
    """Print the comparison and write jobs.csv."""
    parser = argparse.ArgumentParser(description="Compare scheduler=slurm with a recording of a real Slurm.")
    parser.add_argument("recording", type=Path, help="folder that slurm_cluster.py record wrote")
    parser.add_argument("--clock", default="2026-11-30T15:25:24", help="when a PriorityCalcPeriod began")
    parser.add_argument("--again", type=Path, help="a second recording of the same jobs, to compare with the first")
    parser.add_argument("--episodes", type=int, default=20, help="episodes to play; default: 20")
    parser.add_argument("--out", type=Path, default=Path("runs/slurm_recording_compared"), help="for jobs.csv")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with one_line_errors():
        recording = read_recording(arguments.recording, arguments.clock)
        if arguments.again:
            order_again, wait_again = compare_recordings(recording, read_recording(arguments.again, arguments.clock))
            print(f"recorded again: mean wait {wait_again:.3f}, pairs in the recorded order {order_again:.3f}")
        for title, forms in (("by default", {}), ("grouped ends, cores by node", FORMS)):
            scheduler = scheduler_of(recording, arguments.out, **forms)
            found = compare_recording(recording, scheduler, arguments.episodes)
            order, wait = found.in_order, found.wait_ratio
            print(f"{title}: mean wait {wait.mean():.3f} of the recorded one ({wait.min():.3f} to {wait.max():.3f});")
            print(f"  pairs in the recorded order {order.mean():.3f} ({order.min():.3f} to {order.max():.3f}),")
            print(f"  in the order of another episode {found.among_themselves:.3f};")
            print(f"  recorded waits among the simulated ones, or within 3 s: {found.inside(3.0):.3f} of the jobs")
        write_frame(arguments.out / "jobs.csv", found.jobs.round(1))
        print(f"job by job: {arguments.out / 'jobs.csv'}")


if __name__ == "__main__":
    main()
