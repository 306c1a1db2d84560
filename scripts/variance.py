"""Measure how much of the variance of what a decision is worth belongs to the decision, by the length of a branch.

python scripts/variance.py task=shared-16 market.starling.look_ahead=0
python scripts/variance.py task=shared-64 start=checkpoints/bids-mix measure.horizons=[500,.inf]
"""

from pathlib import Path

from omegaconf import DictConfig

from launch import build_inputs, command

# isort: split
from agents.branching.variance import measure_shares
from agents.rllib.evolution import build_policy
from launch.building import build_object
from launch.training import read_start
from launch.variance import branched_task, print_shares


@command("variance")
def main(cfg: DictConfig, folder: Path) -> None:
    """Branch rounds of training episodes; print the shares and write them as CSV."""
    inputs, settings, blueprint = build_inputs(cfg), build_object(cfg.measure), build_object(cfg.agent)
    task = branched_task(cfg, inputs)
    start = read_start(cfg, blueprint, task.spec.num_bids, folder)
    network = build_policy(blueprint, task.spec, inputs.seed, start)
    network.eval()
    shares = measure_shares(
        task,
        network,
        settings,
        inputs.seed,
        lambda done: print(f"round {done} of {settings.decisions}", flush=True) if done % 10 == 0 else None,
    )
    print_shares(shares, settings.confidence, folder / "variance.csv")


if __name__ == "__main__":
    main()
