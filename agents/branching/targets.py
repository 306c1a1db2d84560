"""From branched rounds to what the learner fits: standardised advantages, targets of the tail value, figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.branching.playing import Branched
from agents.branching.settings import BranchSettings
from envs.types import BoolArray, FloatArray


@dataclass(frozen=True)
class RoundTargets:
    """What the learner fits.

    Attributes:
        columns: arrays by name with a leading axis of branched rounds, in random order; some, such as `observation`
            and `backlog`, are dictionaries of such arrays.
        figures: scalars to log.
    """

    columns: dict[str, Any]
    figures: dict[str, float]

    @property
    def num_rounds(self) -> int:
        """Branched rounds."""
        return len(self.columns["advantages"])


def targets_of(games: Sequence[Branched], settings: BranchSettings, rng: np.random.Generator) -> RoundTargets:
    """Join the branched rounds of games of one task.

    Args:
        games: at least one.
        settings: see its class.
        rng: puts the rounds into random order.
    """
    gains, same = (np.concatenate([getattr(game, name) for game in games]) for name in ("gains", "same"))
    advantages = standardise(against_others(gains), settings.advantage_clip, ~same)
    columns: dict[str, Any] = {
        **_joined([game.lesson() for game in games]),
        "advantages": advantages.astype(np.float32),
        "backlog": _joined([game.backlog._asdict() for game in games]),
        "tails": np.concatenate([game.tails for game in games]).astype(np.float32),
    }
    order = rng.permutation(len(gains))
    scores = np.array([game.score for game in games], np.float64)
    figures = {
        "train/mean_jct": float(scores[:, 0].mean()),
        "train/makespan": float(scores[:, 1].mean()),
        "train/unfinished": float(scores[:, 2].mean()),
        "branches/rounds": float(len(gains)),
        "branches/same_decision": float(same.mean()),
        "branches/gain": float(gains.mean()),
        "branches/gain_deviation": float(gains.std()),
        "branches/better": float((gains > 0).mean()),
    }
    return RoundTargets(_reordered(columns, order), figures)


def against_others(gains: FloatArray) -> FloatArray:
    """Deduct from each arm's gain the mean of the others of its round; the baseline, with a gain of 0, is one of them.

    Args:
        gains: float64[D, num_arms].
    """
    others = (gains.sum(axis=1, keepdims=True) - gains) / gains.shape[1]
    advantages: FloatArray = gains - others
    return advantages


def standardise(advantages: FloatArray, most: float, differ: BoolArray) -> FloatArray:
    """Divide advantages by the root mean square of the arms that differ, and limit them to -most ... most."""
    scale = max(float(np.sqrt(np.mean(advantages[differ] ** 2))) if differ.any() else 0.0, 1e-9)
    limited: FloatArray = np.clip(advantages / scale, -most, most)
    return limited


def _reordered(columns: dict[str, Any], order: Any) -> dict[str, Any]:
    return {name: _reordered(part, order) if isinstance(part, dict) else part[order] for name, part in columns.items()}


def _joined(parts: Sequence[Any]) -> Any:
    """Join arrays, or dictionaries of them, along their leading axes."""
    if isinstance(parts[0], dict):
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}
    return np.concatenate(parts)
