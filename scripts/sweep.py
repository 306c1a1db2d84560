"""Mean JCT against offered load for every scheduler: table, sweep.csv and sweep.png.

python scripts/sweep.py
python scripts/sweep.py workload=philly scheduler=[starling,optimus,srtf] loads=[0.6,0.8,1.0]
"""

from pathlib import Path

from launch import command

# isort: split
from envs.evaluation.files import file_part, write_figure, write_frame, write_whole
from envs.evaluation.sweep import sweep
from murmuration.config.describe import describe_sweep
from murmuration.config.descriptions import SweepRun
from murmuration.config.honoured import build_able
from murmuration.config.inputs import build_inputs, find_workloads
from murmuration.reports.report import DOTS_PER_INCH
from murmuration.reports.sweep_plot import jct_by_load
from murmuration.reports.table import unit_for
from murmuration.runs.comparing import print_frame, refuse_failures
from murmuration.runs.spreading import find_spread


@command("sweep", describe_sweep, schedulers="all")
def main(run: SweepRun, folder: Path) -> None:
    """Run the same jobs at every load; print the table, write CSV and plot."""
    inputs = build_inputs(run.problem)
    workloads = find_workloads(inputs, run.split, run.episodes)
    schedulers = build_able(run.schedulers, workloads, run.optional)
    found = sweep(
        schedulers,
        workloads,
        run.loads,
        inputs.setup,
        inputs.seed,
        definition=run.load_definition,
        reference=run.reference,
        optional=run.optional,
        listener=lambda load: print(f"load {load:g} ..."),
        spread=find_spread(),
    )
    table = found.by_load()
    unit, unit_name = unit_for(float(table.median().median()))
    shown = (table / unit).reset_index()
    shown.columns = ["scheduler", *(f"{load:g}" for load in table.columns)]
    print_frame(f"Mean JCT ({unit_name}) by offered load ({run.load_definition} sizes)", shown)
    write_frame(folder / "sweep.csv", found.table())
    write_figure(folder / "sweep.png", jct_by_load(found), DOTS_PER_INCH)
    for name, failure in found.failures.items():
        write_whole(folder / f"failed_{file_part(name)}.txt", failure.trace())
    refuse_failures(found.failures, len(schedulers), folder)


if __name__ == "__main__":
    main()
