"""Trained policies as schedulers, out of their checkpoints. Needs torch."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from agents.networks.job_priority import JobPriority
from agents.policies import BiddingCheckpoint
from agents.policies.bid_checkpoint import is_bidding
from agents.policies.checkpoint import find_checkpoint
from agents.policies.description import check_market
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.policies.options.priorities import LearnedPriorities
from baselines.rltune import Rltune
from envs.scheduling import Scheduler
from envs.simulation.seen.market import Market
from envs.types import CheckpointError
from murmuration.config.building import Component, build_object
from murmuration.config.choices import CHECKPOINTS, find_shipped, list_choices, read_choice
from murmuration.config.descriptions import EvaluationRun
from murmuration.config.errors import ChoiceError
from murmuration.config.provenance import add_provenance, checkpoint_hashes
from murmuration.runs.comparing import compare_and_report


def load_policy(
    path: str | Path,
    networks: Collection[str] = (),
    *,
    sampled: bool | None = None,
    market_options: Mapping[str, Any] | None = None,
) -> Scheduler:
    """Return the policy of a checkpoint, or of the best checkpoint of a training run, as a scheduler.

    Args:
        path: folder of the checkpoint or of the run.
        networks: import paths of network classes that it may name, besides the project's own.
        sampled: whether a policy that chooses options draws them; None for what its training validated. Bids are
            never sampled.
        market_options: options of the market of a policy that bids, in place of those that it was saved with.

    Raises:
        CheckpointError: the checkpoint is missing or corrupt, or its market is not in `conf/market`.
    """
    folder = find_checkpoint(find_shipped(path))
    if is_bidding(folder):
        bids = BiddingCheckpoint.load(folder, networks)
        options = {**bids.market.get("options", {}), **(market_options or {})}
        return _with_seed(bids.scheduler(build_market({**bids.market, "options": options})), bids.notes)
    temperature = None if sampled is None else float(sampled)
    found = OptionCheckpoint.load(folder, networks)
    if isinstance(found.network, JobPriority) and found.network.program:
        return _with_seed(Rltune(LearnedPriorities(found.network, found.rules)), found.notes)
    return _with_seed(found.scheduler(temperature), found.notes)


def _with_seed(scheduler: Any, notes: Mapping[str, Any]) -> Scheduler:
    """Note on a policy the seed of its training, which tables show beside its name; see `find_training_seeds`."""
    if isinstance(seed := notes.get("seed"), int):
        scheduler.training_seed = seed
    policy: Scheduler = scheduler
    return policy


def evaluate_policy(run: EvaluationRun, folder: Path) -> None:
    """Compare a policy with schedulers; print the table and write the report.

    Raises:
        ChoiceError: see `load_policies`.
        CheckpointError: likewise.
        SchedulersFailedError: see `compare_and_report`.
    """
    policies = load_policies(run.checkpoint, run.trusted, sampled=run.sampled, seeds=run.seeds)
    path = Path(run.checkpoint)
    hashes = [checkpoint_hashes(find_checkpoint(each)) for each in seed_folders(path)[: run.seeds] or [path]]
    add_provenance(folder, checkpoint={name: found for each in hashes for name, found in each.items()})
    compare_and_report(run.comparison, folder, policies)


def load_planner(checkpoint: str = "bids-64", plans: int | None = None) -> Scheduler:
    """Return a planner with a trained policy's bids, for `scheduler=learned_planner`.

    On the bids of each round, its market compares the plans of several variants of Starling, in compiled code
    (`ForecastPlanner`): the bids are in all proposals, and in the forecasts by which they are compared.

    Args:
        checkpoint: name of a folder of `checkpoints/`, or the path of a checkpoint or of a training run.
        plans: further variants that the market compares, see `ForecastPlanner`; None for those of the checkpoint.

    Raises:
        CheckpointError: see `load_policy`, or the policy's market has no `plans`.
    """
    shipped = CHECKPOINTS / checkpoint
    options = {} if plans is None else {"plans": plans}
    return load_policy(shipped if shipped.is_dir() else checkpoint, market_options=options)


def load_policies(
    path: str | Path, networks: Collection[str] = (), *, sampled: bool | None = None, seeds: int | None = None
) -> dict[str, Scheduler]:
    """Return the policies of a checkpoint or a training run by name: `policy`, or `policy_0` ... for training seeds.

    Args:
        path: folder of a checkpoint or of a run; a run with `seeds=` has a folder for each seed.
        networks: see `load_policy`.
        sampled: see `load_policy`.
        seeds: number of training seeds, the first ones; None for all that there are.

    Raises:
        ChoiceError: there are fewer training seeds.
        CheckpointError: as `load_policy`.
    """
    found = seed_folders(Path(path))
    if seeds is not None and seeds > max(len(found), 1):
        raise ChoiceError(
            f"seeds={seeds}: {path} has {len(found) or 'no further'} training seeds; train them with seeds={seeds}"
        )
    if not found:
        return {"policy": load_policy(path, networks, sampled=sampled)}
    return {f"policy_{i}": load_policy(each, networks, sampled=sampled) for i, each in enumerate(found[:seeds])}


def seed_folders(run: Path) -> list[Path]:
    """Return the folders of the training seeds of a run, in order; none for a run of one seed."""
    numbers = {each: each.name.removeprefix("seed_") for each in run.glob("seed_*")}
    return sorted((each for each, number in numbers.items() if number.isdecimal()), key=lambda each: int(numbers[each]))


def build_market(described: dict[str, Any]) -> Market:
    """Build a market from what a checkpoint says of it. Only classes named in `conf/market` are built.

    Raises:
        CheckpointError: there is no such market, it has no such option, or an option is not plain data.
        ChoiceError: an option has another type.
    """
    described = {"options": {}, **described}
    check_market(described)
    name, options = described["name"], described["options"]
    if name not in list_choices("market"):
        raise CheckpointError(f"the policy's market is {name!r}; there are: {', '.join(list_choices('market'))}")
    node = read_choice("market", name)
    set_options(node, options, f"the policy's market {name}")
    market: Market = build_object(Component("market", node), Market)
    return market


def set_options(node: dict[Any, Any], options: Mapping[str, Any], where: str) -> None:
    """Set options of a plain node that has them already, at every level; classes stay those of the node.

    Args:
        node: what a file of `conf/market` has; it is changed.
        options: plain data that `check_market` accepts.
        where: how messages call the node.

    Raises:
        CheckpointError: the node has no such option.
    """
    for key, value in options.items():
        if key not in node or key.startswith("_"):
            raise CheckpointError(f"{where} has no option {key!r}; this version has {[str(name) for name in node]}")
        if isinstance(node[key], dict) and isinstance(value, Mapping):
            set_options(node[key], value, f"{where}.{key}")
        elif isinstance(node[key], dict) or isinstance(value, Mapping):
            raise CheckpointError(f"{where}.{key} is {value!r}, which does not fit; this version has {node[key]}")
        else:
            node[key] = value
