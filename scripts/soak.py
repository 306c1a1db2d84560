"""Play random worlds with all faults on for a stated CPU time; every invariant is recomputed from the event logs.

python scripts/soak.py
python scripts/soak.py minutes=1 seed=7
python scripts/soak.py jobs=1000000
python scripts/soak.py fuzz=1
python scripts/soak.py kills=30
"""

import os
from pathlib import Path

from launch import command

# isort: split
from envs.evaluation.files import write_whole
from murmuration.config.describe import describe_soak
from murmuration.config.descriptions import SoakRun
from murmuration.soak.fuzzing.all import fuzz_all
from murmuration.soak.kills import survive_kills
from murmuration.soak.worlds import Tally, check_flat, long_episode, worlds_until


@command("soak", describe_soak)
def main(run: SoakRun, folder: Path) -> None:
    """Play, print the counts, write soak.json; fail at the first result that cannot be. Ctrl-C keeps the counts."""
    if run.fuzz is not None:
        for count in fuzz_all(run.fuzz, run.seed):
            print(count, flush=True)
        return
    if run.kills is not None:
        print(survive_kills(run.kills, run.seed, folder))
        return
    tally, counts = Tally(), folder / "soak.json"
    try:
        tally = worlds_until(run.minutes, run.seed, tally) if run.jobs is None else long_episode(run.jobs, run.seed)
    except KeyboardInterrupt:
        if not tally.worlds:
            raise
        write_whole(counts, tally.to_json())
        print(tally)
        raise KeyboardInterrupt(f"the counts so far are in {os.path.relpath(counts)}") from None
    write_whole(counts, tally.to_json())
    print(tally)
    check_flat(tally, run.growth)


if __name__ == "__main__":
    main()
