"""Checkpoints of bidding policies: weights in safetensors and a plain manifest. No pickle is ever read."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from agents.networks import Blueprint
from agents.policies.bid_scheduler import BiddingScheduler
from agents.policies.checkpoint import check_finite
from agents.policies.description import (
    DESCRIPTION,
    NO_DESCRIPTION,
    NO_WEIGHTS,
    WEIGHTS,
    check_bidding_description,
    check_network_size,
    explaining_damage,
    read_json,
    require_file,
    write_policy,
)
from envs.bidding import BiddingRules, BiddingSpec
from envs.bidding.columns import BID_COLUMNS
from envs.simulation.seen.market import Market
from envs.types import CheckpointError

FACE, FORMAT = "bidding", 1
BID_NETWORKS = ("agents.networks.bidding.BiddingPolicy",)  # that any manifest may name
# Networks know no sizes; these are only for building one.
ANY_SPEC = BiddingSpec(num_nodes=1, num_gpus=1, num_slots=1, num_candidates=1, contenders=0)
EARLIER_BIDS = 6  # of manifests that do not say how many: they are from before batch sizes could be bid for
FREE_OPTIONS = ("silent", "volume")  # of a network: they leave the meaning of its weights as it is


@dataclass(frozen=True)
class BiddingCheckpoint:
    """A bidding policy with all that is needed to run it again, except for its market, which is only named.

    Attributes:
        network: implements `agents.networks.bidding.BidNetwork`.
        blueprint: how it was built.
        rules: what nodes see.
        market: `name` of the market in `conf/market` and its `options`, by which the script that loads it builds one.
        notes: origin: seed, iteration, tasks, validation figures.
        num_bids: bids that the network states, the first of `envs.bidding.columns.BID_COLUMNS`; the others stay 0.
    """

    network: nn.Module
    blueprint: Blueprint
    rules: BiddingRules
    market: dict[str, Any]
    notes: dict[str, Any]
    num_bids: int = len(BID_COLUMNS)

    def save(self, folder: Path) -> None:
        """Write `weights.safetensors` and `policy.json`; each is replaced as a whole."""
        manifest = {
            "face": FACE,
            "format": FORMAT,
            "network": self.blueprint.to_dict(),
            "num_bids": self.num_bids,
            "rules": asdict(self.rules),
            "market": self.market,
            "notes": self.notes,
        }
        write_policy(folder, self.network, manifest)

    @classmethod
    def load(cls, folder: Path, networks: Collection[str] = ()) -> "BiddingCheckpoint":
        """Read a checkpoint from its folder. The manifest is checked before anything that it names is imported.

        Args:
            folder: the folder.
            networks: import paths of network classes that it may name, besides `BID_NETWORKS`.

        Raises:
            CheckpointError: it is missing or corrupt, or its weights do not fit its network.
        """
        with explaining_damage(folder / DESCRIPTION, NO_DESCRIPTION):
            manifest = read_json(folder / DESCRIPTION)
            if (manifest.get("face"), manifest["format"]) != (FACE, FORMAT):
                raise CheckpointError(
                    f"its face is {manifest.get('face')!r} in format {manifest['format']!r}; this version reads {FACE} "
                    f"in format {FORMAT}"
                )
            manifest.setdefault("num_bids", EARLIER_BIDS)
            check_bidding_description(manifest, {*BID_NETWORKS, *networks})
            num_bids = int(manifest["num_bids"])
            blueprint = Blueprint.from_dict(manifest["network"])
            rules, market, notes = BiddingRules(**manifest["rules"]), dict(manifest["market"]), dict(manifest["notes"])
        with explaining_damage(folder / WEIGHTS, NO_WEIGHTS):
            require_file(folder / WEIGHTS)
            weights = load_file(str(folder / WEIGHTS))
            check_finite(weights)
        with explaining_damage(folder / DESCRIPTION, NO_DESCRIPTION):
            spec = replace(ANY_SPEC, num_bids=num_bids)
            check_network_size(blueprint, spec, weights)
            network = blueprint.build(spec)
        with explaining_damage(folder / WEIGHTS, NO_WEIGHTS):
            network.load_state_dict(weights)
        return cls(network, blueprint, rules, market, notes, num_bids)

    def start_for(self, blueprint: Blueprint, num_bids: int) -> dict[str, Tensor]:
        """Return the weights by name, for training that starts from them.

        Args:
            blueprint: the network that is to be trained. It may have other `FREE_OPTIONS`, and options of which the
                checkpoint knows nothing; layers that follow from them are not among the weights returned.
            num_bids: bids of that network. Layers get rows of zeros for bids that the checkpoint lacks.

        Raises:
            CheckpointError: the network of this checkpoint is another one.
        """
        if num_bids < self.num_bids:
            raise CheckpointError(
                f"the network to train has {num_bids} bids and that of the checkpoint {self.num_bids}; add a task in "
                "which batch sizes may be chosen"
            )
        wanted, own = ({"target": each.target, **each.options} for each in (blueprint, self.blueprint))
        weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        parts = [name for name in own if wanted.get(name) != own[name] and name not in FREE_OPTIONS]
        if not parts:
            built = blueprint.build(replace(ANY_SPEC, num_bids=num_bids)).state_dict()
            shapes = {name: value.shape for name, value in built.items()}
            weights = {name: self._with_rows(value, shapes.get(name)) for name, value in weights.items()}
            if all(shapes.get(name) == value.shape for name, value in weights.items()):
                return weights
            parts = sorted(set(wanted) - set(own))
        raise CheckpointError(
            f"the network to train has {', '.join(f'{name} {wanted.get(name)!r}' for name in parts)} and that of "
            f"the checkpoint {', '.join(f'{name} {own.get(name)!r}' for name in parts)}; choose the same network"
        )

    def _with_rows(self, weight: Tensor, shape: torch.Size | None) -> Tensor:
        """Return a weight with rows of zeros for further bids, if that is what it lacks of a shape."""
        if shape is None or weight.shape[:1] != (self.num_bids,) or weight.shape[1:] != shape[1:]:
            return weight
        return torch.cat([weight, weight.new_zeros(max(shape[0] - len(weight), 0), *shape[1:])])

    def scheduler(self, market: Market) -> BiddingScheduler:
        """Return the policy as a scheduler with this market."""
        network: Any = self.network
        return BiddingScheduler(network, market, self.rules)


def is_bidding(folder: Path) -> bool:
    """Whether a folder holds a checkpoint of a bidding policy."""
    try:
        return bool(read_json(folder / DESCRIPTION).get("face") == FACE)
    except (OSError, ValueError, CheckpointError):
        return False
