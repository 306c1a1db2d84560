"""Search for better parameters of a scheduler on training workloads, and check them on validation workloads.

python scripts/tune.py
python scripts/tune.py tuning=starling_unknown generations=10
"""

import json
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from launch import command

# isort: split
from envs.evaluation.tuning import search
from launch.tuning import build_factory, build_parameters, build_score


def print_improvement(evaluations: int, score: float, values: Mapping[str, float]) -> None:
    """Print one line for an improvement."""
    print(f"{evaluations:5d}  {score:+.4f}  {', '.join(f'{name}={value:.4g}' for name, value in values.items())}")


@command("tune")
def main(cfg: DictConfig, folder: Path) -> None:
    """Search, validate, write tuned.json."""
    make = build_factory(cfg)
    found = search(
        make,
        build_parameters(cfg),
        build_score(cfg, "train"),
        generations=cfg.generations,
        population=cfg.population,
        seed=cfg.seed,
        listener=print_improvement,
    )
    validation = build_score(cfg, "validation")
    before, after = validation.score(make({})), validation.score(make(found.values))
    print(f"log ratio to {cfg.tuning.reference}, training: {found.default_score:+.4f} before, {found.score:+.4f} after")
    print(f"log ratio to {cfg.tuning.reference}, validation: {before:+.4f} before, {after:+.4f} after")
    print("worth taking over" if after < before else "not worth taking over: the search fitted its training workloads")
    content = {
        "values": dict(found.values),
        "evaluations": found.evaluations,
        "training": {"before": found.default_score, "after": found.score},
        "validation": {"before": before, "after": after},
    }
    (folder / "tuned.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
