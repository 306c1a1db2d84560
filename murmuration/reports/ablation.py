"""Variants of a training run over paired seeds: tables of differences with standard errors, and their chart."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from envs.evaluation.paired import PairedDifference, paired_ratio
from envs.pictures.plots import COLOURS
from envs.pictures.texts import plot_text
from envs.types import FloatArray

SEEN = 0.02  # the size of a difference for which tables say how many seeds show it
Levels = Mapping[str, str]  # of a variant, by factor


@dataclass(frozen=True)
class VariantFigures:
    """What a variant trained with one seed did on the test workloads.

    Attributes:
        variant: its name.
        seed: of training.
        jct: mean JCT of each workload, in s; unfinished jobs count up to the end of the run.
        unfinished: jobs, over all workloads.
        cpu_seconds: of training, without validation and without workers.
        rounds, decision_seconds: scheduling rounds of all workloads, and their CPU time.
        counters: the scheduler's own, over all workloads.
    """

    variant: str
    seed: int
    jct: Sequence[float]
    unfinished: int
    cpu_seconds: float
    rounds: int
    decision_seconds: float
    counters: Mapping[str, int]


Ablation = Mapping[str, Mapping[int, VariantFigures]]  # by variant, the reference first, and training seed


def list_runs(found: Ablation) -> pd.DataFrame:
    """Return a row for each variant and training seed."""
    return pd.DataFrame(
        [
            {
                "variant": name,
                "seed": seed,
                "mean_jct": float(np.mean(each.jct)),
                "unfinished": each.unfinished,
                "cpu_seconds": each.cpu_seconds,
                "decision_ms": 1000 * each.decision_seconds / each.rounds,
                **each.counters,
            }
            for name, runs in found.items()
            for seed, each in runs.items()
        ]
    )


def compare_variants(found: Ablation) -> pd.DataFrame:
    """Return a row for each variant: its mean JCT, beside the reference's of the same seeds, and what it costs.

    `ratio`: interquartile mean over seeds and workloads of JCT relative to the reference, with a 95 % interval.
    `difference` and `error`: of the logarithms of mean JCT, over seeds, in %. `conflicts`: share of the claims whose
    job another node was given. `passes`: decisions of a round with a choice. `ms`: CPU time of a round.
    """
    reference = next(iter(found.values()))
    return pd.DataFrame([_compare(name, runs, reference) for name, runs in found.items()])


def _compare(name: str, runs: Mapping[int, VariantFigures], reference: Mapping[int, VariantFigures]) -> dict[str, Any]:
    seeds = [seed for seed in runs if seed in reference]
    own, others = (np.array([each[seed].jct for seed in seeds]) for each in (runs, reference))
    ratio, difference = paired_ratio(own, others), PairedDifference.of(own.mean(axis=1) / others.mean(axis=1))
    counts = {key: sum(each.counters.get(key, 0) for each in runs.values()) for key in COUNTED}
    rounds = sum(each.rounds for each in runs.values())
    return {
        "variant": name,
        "seeds": len(seeds),
        "mean JCT (s)": float(own.mean()),
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        **_in_percent(difference),
        "seeds to see 2 %": difference.pairs_to_see(SEEN),
        "conflicts": (counts["lost_claims"] + counts["second_choices"]) / max(counts["claims"], 1),
        "passes": counts["decisions"] / rounds,
        "ms": 1000 * sum(each.decision_seconds for each in runs.values()) / rounds,
        "CPU-s": float(np.mean([each.cpu_seconds for each in runs.values()])),
        "unfinished": sum(each.unfinished for each in runs.values()),
    }


COUNTED = ("claims", "lost_claims", "second_choices", "decisions")


def _in_percent(difference: PairedDifference) -> dict[str, float]:
    return {"difference (%)": 100 * math.expm1(difference.mean.value), "error (%)": 100 * difference.error}


def effects_of_levels(found: Ablation, levels: Mapping[str, Levels]) -> pd.DataFrame:
    """Return a row for each level of a factor but its first: the difference over all pairs that differ in it alone.

    A pair is two runs of one training seed. Pairs with one seed are not independent, so that errors are a guide.

    Args:
        found: of all variants.
        levels: of each variant.
    """
    rows = []
    for factor in next(iter(levels.values())):
        first, *others = dict.fromkeys(own[factor] for own in levels.values())
        for level in others:
            ratios = pair_ratios(found, levels, factor, level, first)
            difference = PairedDifference.of(ratios)
            low, high = (100 * math.expm1(each) for each in (difference.mean.low, difference.mean.high))
            row = {"factor": factor, "level": level, "against": first, "pairs": len(ratios), **_in_percent(difference)}
            rows.append(row | {"low (%)": low, "high (%)": high, "pairs to see 2 %": difference.pairs_to_see(SEEN)})
    return pd.DataFrame(rows)


def pair_ratios(found: Ablation, levels: Mapping[str, Levels], factor: str, level: str, first: str) -> FloatArray:
    """Return float64[pairs], the ratio of mean JCT of all runs that differ in one factor alone, and share the seed."""
    names = {tuple(own.items()): name for name, own in levels.items()}
    ratios = []
    for name, own in levels.items():
        if own[factor] != level:
            continue
        runs, others = found[name], found[names[tuple({**own, factor: first}.items())]]
        ratios += [np.mean(each.jct) / np.mean(others[seed].jct) for seed, each in runs.items() if seed in others]
    return np.array(ratios)


def seeds_needed(found: Ablation, error: float) -> float:
    """Return how many seeds give every paired difference from the reference this standard error; NaN if unknown."""
    reference, *others = found.values()
    needed = [
        PairedDifference.of(
            np.array([np.mean(each.jct) / np.mean(reference[seed].jct) for seed, each in runs.items()])
        ).pairs_for_error(error)
        for runs in others
    ]
    return max(needed) if not any(map(math.isnan, needed)) else math.nan


def draw_differences(table: pd.DataFrame, effects: pd.DataFrame) -> Figure:
    """Draw JCT relative to the reference with 95 % intervals: of levels over all pairs, and of each variant.

    Args:
        table: the result of `compare_variants`.
        effects: the result of `effects_of_levels`.
    """
    several = effects["factor"].nunique() > 1
    heights = [len(effects), len(table)] if several else [len(table)]
    figure = Figure(figsize=(7.5, 1.4 + 0.24 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    if several:
        names = [f"{row.level} against {row.against}" for row in effects.itertuples()]
        ratios = 1 + effects[["difference (%)", "low (%)", "high (%)"]].to_numpy(np.float64) / 100
        draw_intervals(panels[0], names, ratios, "mean JCT of pairs that differ in one level (Student's t)")
    shown = table[["ratio", "low", "high"]].to_numpy(np.float64)
    title = f"JCT relative to {table['variant'][0]} (interquartile mean, bootstrap)"
    draw_intervals(panels[-1], list(table["variant"]), shown, title)
    return figure


def draw_intervals(axes: Axes, names: Sequence[str], values: FloatArray, title: str) -> None:
    """Draw a mark with its interval for each name, from the top; values float64[names, (value, low, high)]."""
    places = np.arange(len(names))[::-1]
    axes.axvline(1.0, color="0.7", lw=0.9)
    axes.hlines(places, values[:, 1], values[:, 2], color=COLOURS[0], lw=1.5)
    axes.plot(values[:, 0], places, "o", color=COLOURS[0], ms=4)
    axes.set_yticks(places, [plot_text(name) for name in names], fontsize=8)
    axes.set_title(plot_text(title), fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
