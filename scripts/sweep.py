"""Mean JCT against offered load for every scheduler: table, sweep.csv and sweep.png.

python scripts/sweep.py
python scripts/sweep.py workload=philly scheduler=[starling,optimus,srtf] loads=[0.6,0.8,1.0]
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import build_schedulers, build_world, command

# isort: split
from envs.evaluation.report import DOTS_PER_INCH
from envs.evaluation.sweep import sweep
from envs.evaluation.sweep_plot import jct_by_load
from envs.evaluation.table import unit_for
from launch.show import show


@command("sweep", schedulers="all")
def main(cfg: DictConfig, folder: Path) -> None:
    """Build the world, play the same jobs at every load, show, keep."""
    world = build_world(cfg)
    found = sweep(
        build_schedulers(cfg),
        world.source.evaluation(cfg.split),
        list(cfg.loads),
        world.cluster,
        world.performance,
        world.scenario,
        world.seed,
        reference=cfg.reference,
        optional=cfg.schedulers if cfg.optional else (),
        listener=lambda load: print(f"load {load:g} ..."),
    )
    table = found.by_load()
    unit, word = unit_for(float(table.median().median()))
    shown = (table / unit).reset_index()
    shown.columns = ["scheduler", *(f"{load:g}" for load in table.columns)]
    show(f"Mean JCT ({word}) by offered load", shown)
    found.table().to_csv(folder / "sweep.csv", index=False)
    jct_by_load(found).savefig(folder / "sweep.png", dpi=DOTS_PER_INCH)


if __name__ == "__main__":
    main()
