"""Ray and saved states for algorithms of RLlib, whose states are pickles."""

import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import torch
from ray.exceptions import RayError, RayTaskError
from torch import nn

from agents.on_ray.connecting import LOCAL, connect
from agents.on_ray.quiet import quieten
from envs.types import CheckpointError, MurmurationError

LEARNER = "learner.pkl"
RLLIB = "rllib"  # the subfolder of a saved state for RLlib's own checkpoint
DIVERGED = "training has diverged; restart from an earlier checkpoint or with a lower learning rate"
RESTARTS: dict[str, Any] = {  # of RLlib's runners; the others play for a lost one, so nothing waits for it
    "restart_failed_env_runners": True,
    "delay_between_env_runner_restarts_s": 1.0,
    "env_runner_health_probe_timeout_s": 2.0,
}


def start_ray() -> bool:
    """Start Ray quietly unless it runs; return whether it was started, so that the caller must stop it.

    The environment variable RAY_ADDRESS names an existing cluster to join instead.

    Raises:
        MurmurationError: Ray cannot be started, or no cluster answers there.
    """
    quieten()
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    setting = f"RAY_ADDRESS={address}" if address else "trainer.method.num_env_runners"
    connect(address or LOCAL, setting, object_store_memory=400_000_000)  # never one that happens to run
    return True


def start_ray_for(setting: str, runners: int) -> bool:
    """Start Ray unless it runs, and check that it has room; RLlib would wait for ever for what there is not.

    Args:
        setting: the part of the configuration that has `num_env_runners`, for the error.
        runners: CPUs for runners.

    Returns:
        Whether Ray was started, so that the caller must stop it.

    Raises:
        MurmurationError: no cluster answers, or it is too small; says what is asked for, what there is, and what to do.
    """
    started = start_ray()
    try:
        _require_cpus(runners, f"{setting}.num_env_runners={runners}")
    except MurmurationError:
        if started:
            ray.shutdown()
        raise
    return started


def _require_cpus(needed: int, option: str) -> None:
    """Assert that Ray has so many CPUs in all.

    Raises:
        MurmurationError: it has fewer.
    """
    there, nodes = ray.cluster_resources().get("CPU", 0.0), sum(bool(node["Alive"]) for node in ray.nodes())
    if needed > there:
        raise MurmurationError(
            f"{option} needs {needed:g} CPUs, and Ray has {there:g} on {nodes} node{'s' * (nodes != 1)}; "
            "lower it, or add machines to a cluster by  ray start --address=...  and name it by ray.address"
        )


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write a state into a folder; `agents.saving` makes folders appear as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LEARNER).write_bytes(pickle.dumps(dict(state)))


def load_state(folder: Path) -> dict[str, Any]:
    """Read the result of `save_state`. Only a state of one's own may be read: a pickle can run anything."""
    found: dict[str, Any] = pickle.loads((folder / LEARNER).read_bytes())
    return found


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn whatever restoring raises into one error.

    Raises:
        CheckpointError: the state is missing or corrupt.
    """
    try:
        yield
    except Exception as error:  # damaged pickles raise almost anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"{path} cannot be restored ({reason}); start a new run") from error


@contextmanager
def explaining_losses() -> Iterator[None]:
    """Explain an error of Ray itself, which training cannot do without; the loss of a runner raises none.

    Raises:
        MurmurationError: says how to continue.
    """
    try:
        yield
    except RayTaskError:  # an error that a worker raised
        raise
    except RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise MurmurationError(
            f"Ray has failed ({type(error).__name__}: {reason}); go on with  resume=<the run's "
            "folder>  from the last iteration"
        ) from error


def results_of(calls: Any) -> list[Any]:
    """Return the results of a call to all learners, which are wrapped if the learners are remote."""
    return [found.get() if hasattr(found, "get") and not isinstance(found, dict) else found for found in calls]


def require_finite(network: nn.Module) -> nn.Module:
    """Return the network if all its weights are finite.

    Raises:
        MurmurationError: a weight is not finite; validation would not notice, because of masks and arg-max.
    """
    for name, weight in network.state_dict().items():
        if not bool(torch.isfinite(weight).all()):
            raise MurmurationError(f"training: weight {name} is not finite; {DIVERGED}")
    return network
