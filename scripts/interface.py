"""Measure how much of each scheduler's decisions the options of the placement environment can express.

python scripts/interface.py task=full-64 scheduler=[starling,afs,optimus,sia]
python scripts/interface.py task=rigid-64 scheduler=gavel_max_min episodes=3
python scripts/interface.py task=full-64 scheduler=starling env.rules.changes=resize
"""

from pathlib import Path

from launch import command

# isort: split
from envs.options.interface import measure_interface
from murmuration.config.building import build_object
from murmuration.config.describe import describe_interface
from murmuration.config.descriptions import InterfaceRun
from murmuration.config.inputs import build_inputs, build_schedulers, find_workloads
from murmuration.runs.interface import print_interface


@command("interface", describe_interface, schedulers="all")
def main(run: InterfaceRun, folder: Path) -> None:
    """Play every scheduler by itself and through options; print the table and write it as CSV."""
    inputs, rules = build_inputs(run.problem), build_object(run.env).rules
    workloads = find_workloads(inputs, run.split, run.episodes)
    found = {}
    for name, scheduler in build_schedulers(run.schedulers).items():
        print(f"{name} ...", flush=True)
        found[name] = measure_interface(scheduler, workloads, inputs.setup, rules, inputs.seed)
    print_interface(found, folder / "interface.csv")


if __name__ == "__main__":
    main()
