"""The present state of the cluster, as text and as an image."""

import numpy as np
import numpy.typing as npt

from envs.simulation import State
from envs.types import ClusterSpec, IntArray

FREE = -1


def gpu_owners(state: State, cluster: ClusterSpec) -> list[IntArray]:
    """Return for each node int64[num_gpus]: the job on each GPU, in ascending order, -1 where it is free."""
    owners = []
    for n in range(cluster.num_nodes):
        row = np.full(cluster.nodes[n].num_gpus, FREE, np.int64)
        at, share = 0, state.nodes[0, n].first_share
        while share >= 0:
            record = state.shares[0, share]
            row[at : at + record.gpus] = record.job
            at += int(record.gpus)
            share = record.next_of_node
        owners.append(row)
    return owners


def cluster_text(state: State, cluster: ClusterSpec) -> str:
    """Describe each node in one line: its type and the job on each GPU."""
    episode = state.episode[0, 0]
    waiting = int(episode.num_active - episode.num_running)
    lines = [
        f"t = {episode.time:,.0f} s   running {episode.num_running}   waiting {waiting}   free GPUs {episode.num_free}"
    ]
    for n, row in enumerate(gpu_owners(state, cluster)):
        cells = " ".join("   ." if job == FREE else f"{job:4d}" for job in row)
        lines.append(f"node_{n:<4d} {cluster.nodes[n].gpu_type:>6s} | {cells}")
    return "\n".join(lines)


def cluster_image(state: State, cluster: ClusterSpec, cell: int = 24) -> npt.NDArray[np.uint8]:
    """Draw uint8[height, width, 3]: one row per node, one cell per GPU, one colour per job, pale where free."""
    owners = gpu_owners(state, cluster)
    width = max(len(row) for row in owners)
    picture = np.full((len(owners) * cell, width * cell, 3), 255, np.uint8)
    for n, row in enumerate(owners):
        for g, job in enumerate(row):
            area = picture[n * cell + 1 : (n + 1) * cell - 1, g * cell + 1 : (g + 1) * cell - 1]
            area[:] = 230 if job == FREE else job_colour(int(job))
    return picture


def job_colour(job: int) -> npt.NDArray[np.uint8]:
    """Return a colour for a job. Hues are a golden ratio apart, so that consecutive jobs differ."""
    hue = (job * 0.6180339887) % 1.0
    ramp = np.abs((hue * 6.0 + np.array([0.0, 4.0, 2.0])) % 6.0 - 3.0) - 1.0
    return (60 + 160 * np.clip(ramp, 0.0, 1.0)).astype(np.uint8)
