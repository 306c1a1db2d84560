"""Films of schedulers and policies, built from configs."""

import os
from pathlib import Path

from omegaconf import DictConfig

from envs.episodes.film import film_episode, write_film
from envs.evaluation.playing import workload_seed
from envs.scheduling import Scheduler
from launch.errors import ChoiceError
from launch.inputs import build_inputs, build_schedulers
from launch.registry import registered
from launch.runs import recall_setup


def film_run(cfg: DictConfig, folder: Path) -> Path:
    """Film the episode that a config describes; print and return the path of the film.

    Raises:
        ChoiceError: the name has another ending, there is no such episode, or not one scheduler.
        MurmurationError: the film cannot be written.
    """
    if Path(cfg.film).suffix not in (".gif", ".mp4"):  # before the episode is played
        raise ChoiceError(f"film={cfg.film}: the name of a film must end with .gif or .mp4")
    if cfg.checkpoint:
        cfg = recall_setup(cfg)
    inputs = build_inputs(cfg)
    workloads = inputs.source.evaluation(cfg.split)
    if not isinstance(cfg.episode, int) or not 0 <= cfg.episode < len(workloads):
        raise ChoiceError(f"episode is {cfg.episode!r}; it must be a whole number from 0 to {len(workloads) - 1}")
    seed = workload_seed(inputs.seed, cfg.episode)
    frames = film_episode(find_actor(cfg), workloads[cfg.episode], inputs.setup, seed, cfg.frames)
    write_film(frames, folder / cfg.film, cfg.fps)
    print(f"{len(frames)} pictures of {workloads[cfg.episode].name}: {os.path.relpath(folder / cfg.film)}")
    return folder / str(cfg.film)


def find_actor(cfg: DictConfig) -> Scheduler:
    """Return the policy of the checkpoint, or the only scheduler that is chosen.

    Raises:
        ChoiceError: several schedulers are chosen, or none.
    """
    if cfg.checkpoint:
        from launch.policies import load_policies  # needs torch

        return next(iter(load_policies(cfg.checkpoint, registered(cfg), sampled=cfg.sampled).values()))
    built = build_schedulers(cfg)
    if len(built) != 1:
        raise ChoiceError(f"{len(built)} schedulers are chosen ({', '.join(built)}); a film shows one: scheduler=fifo")
    return next(iter(built.values()))
