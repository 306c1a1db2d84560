"""Play random worlds with all faults on for a stated CPU time; every invariant is recomputed from the event logs.

python scripts/soak.py
python scripts/soak.py minutes=1 seed=7
python scripts/soak.py jobs=1000000
"""

from pathlib import Path

from launch import command

# isort: split
from envs.evaluation.files import write_whole
from launch.describe import describe_soak
from launch.descriptions import SoakRun
from launch.soaking import check_flat, long_episode, worlds_until


@command("soak", describe_soak)
def main(run: SoakRun, folder: Path) -> None:
    """Play, print the counts, write soak.json; fail at the first result that cannot be."""
    tally = worlds_until(run.minutes, run.seed) if run.jobs is None else long_episode(run.jobs, run.seed)
    write_whole(folder / "soak.json", tally.to_json())
    print(tally)
    check_flat(tally, run.growth)


if __name__ == "__main__":
    main()
