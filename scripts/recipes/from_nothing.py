"""Learning from random weights in one file: `python scripts/recipes/from_nothing.py [iterations]`.

What `trainer=group_ppo` does, with PyTorch and NumPy alone: play eight episodes of each workload, compare each with the
seven others, and make the options likelier after which less cost lay ahead of it than of them at that time. The project
plays in compiled code instead (docs/training.md), on larger worlds.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from baselines import Fifo, Srtf
from envs import Scheduler, Setup, Simulator, SyntheticSource, default_model, run_episode, summarise
from envs.cluster import NodeGroup, build_cluster
from envs.options import OptionSpec, OptionVectorEnv

GROUP_SIZE, NUM_WORKLOADS = 8, 8  # episodes of a workload; workloads of an iteration
HORIZON = 30_000.0  # in s; a cost that lies t seconds ahead counts exp(-t / HORIZON)
LR, CLIP, ENTROPY, NUM_EPOCHS, NUM_MINIBATCHES = 3e-3, 0.2, 0.003, 2, 6
NUM_VALIDATION, VALIDATE_EVERY = 32, 5


class Scorer(nn.Module):
    """One hidden layer over an option, its job, its node and the cluster."""

    def __init__(self, spec: OptionSpec, hidden: int = 32) -> None:
        super().__init__()
        size = spec.option_features + spec.job_features + spec.node_features + spec.cluster_features
        last = nn.Linear(hidden, 1)
        nn.init.normal_(last.weight, std=0.05)  # nearly the uniform policy
        self.layers = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), last)

    def forward(self, rows: Tensor) -> Tensor:
        """Return a score for each row, float32[M]."""
        scores: Tensor = self.layers(rows).squeeze(-1)
        return scores


@dataclass
class Decisions:
    """Decisions to learn from, with their options, rows one after another."""

    rows: list[np.ndarray]  # float32[options, features] of each decision
    chosen: list[int]
    log_probs: list[float]
    episodes: list[int]
    times: list[float]  # simulated time, in s
    costs: list[float]  # job-seconds so far


def option_rows(seen: dict[str, np.ndarray], b: int) -> np.ndarray:
    """Return the options of an episode with the features of their jobs and nodes and of the cluster; 0 for waiting."""
    count = int(seen["action_mask"][b].sum())
    job, node = seen["option_jobs"][b, :count].astype(int), seen["option_nodes"][b, :count].astype(int)
    jobs = np.where(job[:, None] >= 0, seen["jobs"][b, job], 0.0)
    nodes = np.where(node[:, None] >= 0, seen["nodes"][b, node], 0.0)
    cluster = np.repeat(seen["cluster"][b][None], count, axis=0)
    return np.concatenate((seen["options"][b, :count], jobs, nodes, cluster), axis=1).astype(np.float32)


@torch.no_grad()
def play(env: OptionVectorEnv, policy: Scorer, rng: np.random.Generator | None) -> tuple[Decisions, np.ndarray]:
    """Play all episodes of a batch to their ends.

    Args:
        env: the batch.
        policy: chooses.
        rng: draws from the softmax over scores; None for the likeliest option, on the same workloads in every call.

    Returns:
        The decisions, and the return of each episode.
    """
    seen, _ = env.reset(seed=0 if rng is None else None)
    found, total = Decisions([], [], [], [], [], []), np.zeros(env.num_envs)
    clock, running = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
    while running.any():
        places = np.flatnonzero(running).tolist()
        rows = [option_rows(seen, b) for b in places]
        scores = policy(torch.from_numpy(np.concatenate(rows))).numpy()
        actions = np.zeros(env.num_envs, np.int64)
        for b, own, score in zip(places, rows, np.split(scores, np.cumsum([len(r) for r in rows])[:-1]), strict=True):
            if rng is None:
                actions[b] = int(score.argmax())
                continue
            weights = np.exp(score - score.max())
            weights /= weights.sum()
            actions[b] = min(int(np.searchsorted(np.cumsum(weights), rng.random())), len(own) - 1)
            found.rows.append(own)
            found.chosen.append(int(actions[b]))
            found.log_probs.append(float(np.log(weights[actions[b]])))
            found.episodes.append(int(b))
            found.times.append(float(clock[b]))
            found.costs.append(float(-total[b]))
        seen, rewards, ended, _, info = env.step(actions)
        total[running] += rewards[running]
        clock[running] += info["elapsed"][running]
        running &= ~ended
    for b in range(env.num_envs):  # the end of each episode, of which nothing is learnt
        found.episodes.append(b)
        found.times.append(float(clock[b]))
        found.costs.append(float(-total[b]))
    return found, total


def advantages(found: Decisions, num_episodes: int) -> np.ndarray:
    """Return the mean cost ahead of the other episodes of the workload at this simulated time, minus the own one."""
    episodes, times, costs = np.array(found.episodes), np.array(found.times), np.array(found.costs)
    ahead, of = np.zeros(len(times)), [np.flatnonzero(episodes == b) for b in range(num_episodes)]
    for own in of:
        for k, after in zip(own[-2::-1], own[:0:-1], strict=True):
            kept = np.exp(-(times[after] - times[k]) / HORIZON)
            ahead[k] = costs[after] - costs[k] + kept * ahead[after]
    result = np.zeros(len(times))
    for b, own in enumerate(of):
        group = b // GROUP_SIZE * GROUP_SIZE
        others = [of[c] for c in range(group, group + GROUP_SIZE) if c != b]
        values = [np.interp(times[own], times[other], ahead[other], right=0.0) for other in others]
        result[own] = np.mean(values, axis=0) - ahead[own]
    return result[: len(found.rows)]


def learn(policy: Scorer, optimizer: torch.optim.Optimizer, found: Decisions, gains: np.ndarray) -> None:
    """Improve the policy by PPO's clipped ratio and a bonus on the entropy of the choice."""
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    for _ in range(NUM_EPOCHS):
        for chosen in np.array_split(np.random.default_rng(len(gains)).permutation(len(gains)), NUM_MINIBATCHES):
            counts = torch.tensor([len(found.rows[i]) for i in chosen])
            of = torch.repeat_interleave(torch.arange(len(chosen)), counts)
            scores = policy(torch.from_numpy(np.concatenate([found.rows[i] for i in chosen])))
            highest = torch.full((len(chosen),), -torch.inf).scatter_reduce(0, of, scores.detach(), "amax")
            shifted = scores - highest[of]
            norm = torch.zeros(len(chosen)).index_add(0, of, shifted.exp()).log()
            log_probs = shifted - norm[of]
            entropy = -torch.zeros(len(chosen)).index_add(0, of, log_probs.exp() * log_probs).mean()
            taken = log_probs[counts.cumsum(0) - counts + torch.tensor([found.chosen[i] for i in chosen])]
            ratio = (taken - torch.tensor([found.log_probs[i] for i in chosen])).exp()
            gain = torch.from_numpy(gains[chosen].astype(np.float32))
            loss = -torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean() - ENTROPY * entropy
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


def main(iterations: int) -> None:
    """Train, and print the mean JCT of greedy choices on validation workloads beside those of baselines."""
    torch.manual_seed(0)
    groups = [NodeGroup("V100", num_nodes=2, num_gpus=4), NodeGroup("P100", num_nodes=2, num_gpus=4)]
    setup = Setup(build_cluster("four_nodes", groups), default_model())
    source = SyntheticSource(setup.cluster, setup.performance, num_jobs=30, max_gpus=8, load=1.5)
    training = OptionVectorEnv(setup, source, GROUP_SIZE * NUM_WORKLOADS, group_size=GROUP_SIZE, max_options=128)
    validation = OptionVectorEnv(setup, source, NUM_VALIDATION, split="validation", max_options=128)
    validation.reset(seed=0)
    num_jobs, workloads = source.num_jobs, [each for each in validation.batch.workloads if each is not None]
    baselines: dict[str, Scheduler] = {"fifo": Fifo(), "srtf": Srtf()}
    for name, scheduler in baselines.items():
        jct = [summarise(run_episode(scheduler, Simulator(workload, setup))).mean_jct for workload in workloads]
        print(f"{name}: mean JCT {np.mean(jct) / 3600:.2f} h")
    policy, rng, spent = Scorer(OptionSpec()), np.random.default_rng(0), 0.0
    optimizer = torch.optim.Adam(policy.parameters(), LR)
    for iteration in range(iterations + 1):
        if iteration % VALIDATE_EVERY == 0 or iteration == iterations:
            _, total = play(validation, policy, None)
            print(f"iteration {iteration}, {spent:.0f} CPU-s: mean JCT {-total.mean() / num_jobs / 3600:.2f} h")
        if iteration < iterations:
            since = time.process_time()
            found, _ = play(training, policy, rng)
            learn(policy, optimizer, found, advantages(found, training.num_envs))
            spent += time.process_time() - since


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
