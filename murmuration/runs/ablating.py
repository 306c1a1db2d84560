"""Ablations: variants of a training run over paired seeds. Needs torch and ray.

Two runs of one training seed are paired: they begin with the same weights wherever their networks have weights of the
same name and shape, draw the same training workloads and random numbers, and play the same test workloads.
"""

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from agents.terminal import ProgressListener
from agents.training import Trainer
from envs.evaluation.audit import Audit
from envs.evaluation.failure import Failure
from envs.evaluation.files import write_figure, write_frame, write_whole
from envs.evaluation.outcome import Outcome
from envs.evaluation.playing import play_all, worlds
from murmuration.config.descriptions import AblationRun, SeedRun, TrainingVariant
from murmuration.config.errors import ChoiceError, SchedulersFailedError
from murmuration.config.inputs import TEST, build_inputs, find_workloads
from murmuration.config.plain import load_json
from murmuration.reports.ablation import (
    Ablation,
    VariantFigures,
    compare_variants,
    draw_differences,
    effects_of_levels,
    list_runs,
    seeds_needed,
)
from murmuration.reports.report import DOTS_PER_INCH
from murmuration.runs.comparing import print_frame
from murmuration.runs.policies import load_policy
from murmuration.runs.training import build_trainer

FIGURES = "figures.json"  # of a variant and a seed that is finished
PLAYED_SEED = 0  # of all test episodes


def ablate(run: AblationRun, folder: Path) -> Path:
    """Train the variants with as many seeds as are needed, print and write what they show; return the folder.

    Raises:
        ChoiceError: see `build_trainer`; or the folder has a finished run of other options.
    """
    found: dict[str, dict[int, VariantFigures]] = {name: {} for name in run.variants}
    pilot = min(run.pilot, run.seeds)
    with saying_how_to_go_on(folder), ProgressListener() as listener:
        train_all(run, folder, range(pilot), found, listener)
        needed = seeds_needed(found, run.error)
        if pilot > 1:
            listener.note(
                f"after {pilot} training seeds: a standard error of {run.error:.1%} of every difference needs "
                f"{needed:,.0f} seeds of each variant"
            )
        if needed > pilot:
            train_all(run, folder, range(pilot, min(int(needed), run.seeds)), found, listener)
    report(run, folder, found)
    return folder


def train_all(
    run: AblationRun,
    folder: Path,
    numbers: Iterable[int],
    found: dict[str, dict[int, VariantFigures]],
    listener: ProgressListener,
) -> None:
    """Train and play all variants with some seeds, seed by seed, and enter their figures; finished ones are read."""
    due = [(run.seed + number, name) for number in numbers for name in run.variants]
    listener.phase("variants", len(due))
    reference = next(iter(run.variants.values())).training
    for done, (seed, name) in enumerate(due, 1):
        variant, place = run.variants[name], folder / name / f"seed_{seed}"
        made = {"options": list(variant.options), "seed": seed, "workloads": run.workloads}
        figures = read_finished(place / FIGURES, name, made)
        if figures is None:
            part = listener.part(f"{name}, seed {seed}")
            figures = train_variant(name, variant, reference, run.workloads, seed, place, part)
            part.end()
            write_whole(place / FIGURES, json.dumps({"made": made, "figures": asdict(figures)}, indent=2) + "\n")
        found[name][seed] = figures
        listener.step(done, {})


def read_finished(path: Path, name: str, made: Mapping[str, Any]) -> VariantFigures | None:
    """Return the figures of a finished run; None if it is not finished.

    Raises:
        ChoiceError: it was made of other options, or the file is damaged.
    """
    if not path.exists():
        return None
    content = load_json(path)
    try:
        before, figures = content["made"], VariantFigures(**content["figures"])
        sound = figures.rounds > 0 and math.isfinite(sum(figures.jct) + figures.cpu_seconds + figures.decision_seconds)
        sound = sound and len(figures.jct) > 0 and min(figures.jct) > 0 and sum(figures.counters.values()) >= 0
    except (TypeError, KeyError, AttributeError):
        sound, before = False, None
    if not sound:
        raise ChoiceError(f"{path}: has no figures of a variant; remove the file, and it is trained again")
    if before != made:
        raise ChoiceError(f"{path}: was made with {before}, and is asked for with {dict(made)}; choose another folder")
    return figures


def train_variant(
    name: str,
    variant: TrainingVariant,
    reference: SeedRun,
    workloads: int,
    seed: int,
    folder: Path,
    listener: ProgressListener,
) -> VariantFigures:
    """Train a variant with one seed, or go on, and play its best policy on the first test workloads.

    Raises:
        SchedulersFailedError: the policy failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = with_seed(variant.training, seed)
    trainer = build_trainer(own, folder, listener)
    if variant.training is not reference and trainer.start is None:
        other = replace(with_seed(reference, seed), loggers=())
        trainer.start = shared_weights(trainer, build_trainer(other, folder, listener))
    state = trainer.run()
    listener.phase("test", 1)
    inputs = build_inputs(own.problem)
    played = find_workloads(inputs, TEST, workloads)
    world = worlds(played, inputs.setup, PLAYED_SEED)
    runs = play_all(name, load_policy(folder, own.trusted), world, len(played), None, Audit(inputs.setup))
    if isinstance(runs, Failure | str):
        raise SchedulersFailedError(f"{name}, seed {seed}: {runs}")
    counters = {key: sum(each.counters[key] for each in runs) for key in runs[0].counters}
    return VariantFigures(
        name,
        seed,
        [Outcome.of(each, inputs.setup.scenario).mean_jct for each in runs],
        sum(each.num_unfinished for each in runs),
        sum(state.cpu_time),
        sum(each.num_rounds for each in runs),
        sum(each.decision_seconds for each in runs),
        counters,
    )


def with_seed(run: SeedRun, seed: int) -> SeedRun:
    """Return a training run with another seed."""
    return replace(run, problem=replace(run.problem, seed=seed))


def shared_weights(trainer: Trainer, reference: Trainer) -> dict[str, Tensor]:
    """Return the first weights of the reference of the same seed that a network has by the same name and shape."""
    seed = trainer.state.seed
    own = trainer.problem.build(seed, None).state_dict()
    others = reference.problem.build(seed, None).state_dict()
    return {name: value for name, value in others.items() if name in own and own[name].shape == value.shape}


def report(run: AblationRun, folder: Path, found: Ablation) -> None:
    """Print the tables, and write them with all runs and the chart."""
    levels = {name: variant.levels for name, variant in run.variants.items()}
    table, effects = compare_variants(found), effects_of_levels(found, levels)
    print_frame(f"Mean JCT on {run.workloads} test workloads, paired with {next(iter(found))}", table)
    if effects["factor"].nunique() > 1:
        print_frame("Pairs of runs that differ in one level", effects)
    for name, frame in (("runs", list_runs(found)), ("ablation", table), ("effects", effects)):
        write_frame(folder / f"{name}.csv", frame)
    write_figure(folder / "ablation.png", draw_differences(table, effects), DOTS_PER_INCH)


@contextmanager
def saying_how_to_go_on(folder: Path) -> Iterator[None]:
    """Say of an interrupted ablation how it goes on.

    Raises:
        KeyboardInterrupt: the same interrupt, with that line.
    """
    run = os.path.relpath(folder)
    print(f"training in {run}", flush=True)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with python {sys.argv[0]} resume={run} and the same options") from None
