"""How policies do in worlds that they have not seen: a table, relative to a reference, and what it adds up to.

Each world is played by all schedulers on the same workloads. A scheduler that a world refuses, since it hides what that
one must know, is left out there. Finished worlds are kept in the folder of the run, or in the one that `continues`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pandas as pd

from envs.evaluation.files import write_whole
from envs.evaluation.statistics import Estimate
from experiments.performance.reproduction import Reproduction
from murmuration.config.choices import CONF
from murmuration.config.describe import compose_comparison
from murmuration.runs.comparing import play_comparison
from murmuration.runs.policies import load_policies

Ratios = dict[str, Estimate]  # ratio of mean JCT to the reference, by scheduler


def compare_elsewhere(
    data: str,
    folder: Path,
    policies: Mapping[str, str],
    worlds: Mapping[str, Sequence[str]],
    drawn: tuple[int, int],
    published: Sequence[str],
    others: Sequence[str],
    reference: str,
    only: Sequence[str] = (),
    continues: str = "",
) -> Reproduction:
    """Play policies and schedulers in many worlds.

    Args:
        data: the folder with `traces/`; empty for the one that MURMURATION_DATA names.
        folder: of the run.
        policies: checkpoints by name; a relative path is relative to the repository.
        worlds: options of a comparison, by the name of the world.
        drawn: the first drawn world, and the one after the last, of `world=any`.
        published: names of the schedulers of which the best counts.
        others: names of further schedulers.
        reference: ratios are relative to it.
        only: names of the worlds to be played; none for all.
        continues: folder of an earlier run; its worlds are not played again.

    Raises:
        ChoiceError: there is no such scheduler, option or checkpoint.
    """
    if data:
        os.environ["MURMURATION_DATA"] = data
    every = {f"world-{i}": ["task=none", "world=any", f"world.number={i}"] for i in range(*drawn)} | dict(worlds)
    rows: dict[str, Ratios] = {}
    names = list(dict.fromkeys([reference, *published, *others]))
    for world in only or every:
        rows[world] = _known(folder, continues, world)
        missing = [name for name in names if name not in rows[world]]
        untried = {name: path for name, path in policies.items() if name not in rows[world]}
        if missing or untried:
            rows[world] |= compare_in(every[world], missing, untried, reference)
            kept = {name: astuple(ratio) for name, ratio in rows[world].items()}
            write_whole(folder / f"{world}.json", json.dumps(kept, indent=2) + "\n")
    of_policies = list(policies)
    table = pd.DataFrame([_as_texts(world, row, of_policies, published, others) for world, row in rows.items()])
    totals = pd.DataFrame([add_up(name, rows, published, reference) for name in [*of_policies, *others]])
    return Reproduction([(f"Mean JCT relative to {reference}", table), ("Over these worlds", totals)], ())


def compare_in(words: Sequence[str], names: Sequence[str], policies: Mapping[str, str], reference: str) -> Ratios:
    """Return the ratios of schedulers and policies in a world; those that it refuses are missing."""
    chosen = list(dict.fromkeys([reference, *names]))
    run = compose_comparison([*words, f"scheduler=[{','.join(chosen)}]", f"reference={reference}", "optional=true"])
    built = {name: load_policies(CONF.parent / path)["policy"] for name, path in policies.items()}
    comparison, _, _ = play_comparison(run, None, built, quiet=True)
    return {name: comparison.ratio("mean_jct", name) for name in comparison.schedulers}


def best_published(row: Ratios, published: Sequence[str]) -> str:
    """Return the published scheduler with the shortest mean JCT of a world."""
    return min((name for name in published if name in row), key=lambda name: row[name].value)


def add_up(policy: str, rows: Mapping[str, Ratios], published: Sequence[str], reference: str) -> dict[str, object]:
    """Return what a policy reaches over all worlds in which it was played.

    "Behind SRTF" counts the worlds in which even the lower end of its interval is above SRTF's ratio.
    """
    played = {world: row for world, row in rows.items() if policy in row}
    own = {world: row[policy] for world, row in played.items()}
    best = {world: row[best_published(row, published)].value for world, row in played.items()}
    values = np.array([ratio.value for ratio in own.values()])
    return {
        "policy": policy,
        "worlds": len(own),
        "geometric mean": float(np.exp(np.log(values).mean())),
        "worst": float(values.max()),
        "of the best published": float(np.exp(np.mean([np.log(own[each].value / best[each]) for each in own]))),
        "ahead of all published": sum(own[each].value < best[each] for each in own),
        f"surely ahead of {reference}": sum(ratio.high < 1.0 for ratio in own.values()),
        "behind SRTF": sum("srtf" in row and row[policy].low > row["srtf"].value for row in played.values()),
    }


def _as_texts(
    world: str, row: Ratios, policies: Sequence[str], published: Sequence[str], others: Sequence[str]
) -> dict[str, str]:
    best = best_published(row, published)
    found = {"world": world} | {name: _text(row[name]) if name in row else "" for name in policies}
    return (
        found
        | {"best published": f"{best} {_text(row[best])}"}
        | {name: _text(row[name]) if name in row else "" for name in others}
    )


def _text(ratio: Estimate) -> str:
    return f"{ratio.value:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"


def _known(folder: Path, continues: str, world: str) -> Ratios:
    """Return what an earlier run found in a world."""
    for place in filter(None, (str(folder), continues)):
        if (path := Path(place) / f"{world}.json").exists():
            return {name: Estimate(*ratio) for name, ratio in json.loads(path.read_text()).items()}
    return {}
