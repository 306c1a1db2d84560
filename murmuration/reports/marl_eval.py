"""Export of a comparison in the JSON format of marl-eval (Gorsane et al., NeurIPS'22).

environment -> task -> algorithm -> seed -> "step_<n>" and "absolute_metrics". Each metric is a list with a value for
each evaluation episode. marl-eval prefers large values, so `mean_episode_return` is minus the mean JCT in seconds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from envs.evaluation.comparison import Comparison
from envs.evaluation.plain_values import plain

ENVIRONMENT = "murmuration"


def to_marl_eval(
    comparison: Comparison,
    groups: Mapping[str, Sequence[str]] | None = None,
    steps: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return a comparison as plain values in marl-eval's format.

    Workloads in which a scheduler has no figure are left out of its lists.

    Args:
        comparison: the comparison.
        groups: names of schedulers that are seeds of one policy, by the policy's name; other schedulers stand alone.
        steps: by scheduler, the training iterations before the evaluation; 0 if it is not named.
    """
    task = comparison.settings.get("task")
    title = f"{task['name']}-v{task['version']}" if task else "workloads"
    seeds = {name for members in (groups or {}).values() for name in members}
    alone = {name: [name] for name in comparison.schedulers if name not in seeds}
    algorithms = {
        name: {
            f"seed_{number}": _run(comparison, member, (steps or {}).get(member, 0))
            for number, member in enumerate(members)
        }
        for name, members in {**(groups or {}), **alone}.items()
    }
    found: dict[str, Any] = plain({ENVIRONMENT: {title: algorithms}})
    return found


def _run(comparison: Comparison, scheduler: str, step: int) -> dict[str, Any]:
    """Return what one seed reached: its last step, and the same figures as absolute metrics."""
    summaries = [each for each in comparison.summaries[scheduler] if not math.isnan(each.mean_jct)]
    metrics = {
        "mean_episode_return": [-summary.mean_jct for summary in summaries],
        "mean_jct": [summary.mean_jct for summary in summaries],
        "makespan": [summary.makespan for summary in summaries],
    }
    spent = sum(episode.decision_seconds for episode in comparison.episodes[scheduler])
    return {
        f"step_{step}": {"step_count": step, "elapsed_time": spent, **metrics},
        "absolute_metrics": metrics,
    }
