"""Play random worlds with all faults on for a stated CPU time; every invariant is recomputed from the event logs.

python scripts/soak.py
python scripts/soak.py minutes=1 seed=7
python scripts/soak.py jobs=1000000
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import command

# isort: split
from launch.soaking import check_flat, long_episode, worlds_until


@command("soak")
def main(cfg: DictConfig, folder: Path) -> None:
    """Play, print the counts, write soak.json; fail at the first result that cannot be."""
    tally = worlds_until(cfg.minutes, cfg.seed) if cfg.jobs is None else long_episode(cfg.jobs, cfg.seed)
    (folder / "soak.json").write_text(tally.to_json())
    print(tally)
    check_flat(tally, cfg.growth)


if __name__ == "__main__":
    main()
