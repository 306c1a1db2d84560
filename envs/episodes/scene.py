"""The content of a picture of an episode, read from the engine's arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from envs.simulation import State
from envs.simulation.world.state import Status
from envs.types import ClusterSpec, FloatArray, IntArray, Seconds

FREE = -1
DOWN = -2


@dataclass(frozen=True)
class SceneJob:
    """A job that runs or waits."""

    job: int
    num_gpus: int  # held, or requested by a job that waits
    age: Seconds  # since its submission
    left: Seconds = float("nan")  # of its run as it runs now, or alone on what it requests; NaN if that is not known


@dataclass(frozen=True)
class Scene:
    """The present state of one episode, as it is drawn.

    Attributes:
        time: simulated time in seconds.
        types: GPU type of each node.
        owners: for each node int64[num_gpus]: the job on each GPU in ascending order, `FREE` or `DOWN`.
        cores: float64[num_nodes], the share of each node's cores that jobs hold; None if the scenario divides none.
        memory: float64[num_nodes], likewise.
        waiting: the queue, in order of submission.
        running: the jobs on GPUs, likewise.
        num_free: free GPUs.
        num_done: finished jobs.
        mean_jct: mean JCT of the finished jobs in seconds; NaN without one.
        edges: int64[num_edges, 2], links of the coordination graph between nodes.
        weights: float64[num_edges], of the links; empty where they have none.
        wants: for each node what it would do most likely, in a few words; empty without.
        said: sentences about what was decided, below the nodes, and empty ones for the room that others would take.
        bids: for each node the job that it bids for most and how much, -1 ... 1; empty without bids.
        tells: whether there is room beside the nodes for edges, wants or bids, if only in other pictures.
        title: who plays what; empty for none.
    """

    time: Seconds
    types: tuple[str, ...]
    owners: list[IntArray]
    cores: FloatArray | None
    memory: FloatArray | None
    waiting: list[SceneJob]
    running: list[SceneJob]
    num_free: int
    num_done: int
    mean_jct: Seconds
    edges: IntArray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    bids: list[tuple[int, float]] = field(default_factory=list)
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))
    wants: list[str] = field(default_factory=list)
    said: tuple[str, ...] = ()
    tells: bool = False
    title: str = ""

    @classmethod
    def of(
        cls,
        state: State,
        cluster: ClusterSpec,
        edges: IntArray | None = None,
        bids: list[tuple[int, float]] | None = None,
        ideal: FloatArray | None = None,
    ) -> "Scene":
        """Read the first episode of a state.

        Args:
            state: of the engine.
            cluster: its nodes.
            edges, bids: of the bidding environment.
            ideal: float64[num_jobs], seconds that each job takes alone on the GPUs that it requests.
        """
        episode, jobs, nodes = state.episode[0, 0], state.jobs[0], state.nodes[0]
        owners = gpu_owners(state, cluster)
        held = np.array([_amounts(state, n) for n in range(cluster.num_nodes)])
        total = np.stack([nodes["cpus"], nodes["memory"]], axis=1)
        divided = bool(episode.shares_cpu_memory)
        shares = held / np.maximum(total, 1e-12) if divided else None
        done = jobs["status"] == Status.DONE
        return cls(
            time=float(episode.time),
            types=tuple(node.gpu_type for node in cluster.nodes),
            owners=owners,
            cores=shares[:, 0] if shares is not None else None,
            memory=shares[:, 1] if shares is not None else None,
            waiting=_jobs(state, Status.QUEUED, "num_gpus", None if ideal is None else ideal * _undone(jobs)),
            running=_jobs(state, Status.RUNNING, "gpus", jobs["finish"] - episode.time),
            num_free=int(episode.num_free),
            num_done=int(done.sum()),
            mean_jct=float((jobs["finish"] - jobs["submit"])[done].mean()) if done.any() else float("nan"),
            edges=np.zeros((0, 2), np.int64) if edges is None else edges,
            bids=bids or [],
            tells=edges is not None,
        )

    def with_notes(
        self, edges: IntArray, weights: FloatArray, wants: Sequence[str], said: Sequence[str], lines: int
    ) -> "Scene":
        """Return the scene with what a policy tells of its decisions, and room for `lines` sentences."""
        blank = [""] * (lines - len(said))
        return replace(self, edges=edges, weights=weights, wants=list(wants), said=(*said, *blank), tells=True)

    def at(self, time: Seconds) -> "Scene":
        """Return the scene at a later time at which nothing else has changed."""
        later = time - self.time
        waiting = [replace(job, age=job.age + later) for job in self.waiting]
        running = [replace(job, age=job.age + later, left=job.left - later) for job in self.running]
        return replace(self, time=time, waiting=waiting, running=running)


def _undone(jobs: npt.NDArray[np.void]) -> FloatArray:
    """float64[num_jobs]: the share of each job's work that is left."""
    return np.asarray(jobs["remaining"] / np.maximum(jobs["work"], 1e-300))


def _jobs(state: State, status: Status, size: str, left: FloatArray | None) -> list[SceneJob]:
    """Return the jobs of a status in order of submission; their GPUs are in the column `size`."""
    jobs, now = state.jobs[0], float(state.episode[0, 0].time)
    found = np.flatnonzero(jobs["status"] == status)
    found = found[np.argsort(jobs["submit"][found], kind="stable")]
    known = np.full(len(jobs), np.nan) if left is None else left
    return [SceneJob(int(j), int(jobs[size][j]), float(now - jobs["submit"][j]), float(known[j])) for j in found]


def gpu_owners(state: State, cluster: ClusterSpec) -> list[IntArray]:
    """Return for each node int64[num_gpus]: the job on each GPU, in ascending order; `FREE` or `DOWN` where none is."""
    owners = []
    for n in range(cluster.num_nodes):
        record = state.nodes[0, n]
        row = np.full(cluster.nodes[n].num_gpus, DOWN if record.down else FREE, np.int64)
        at, share = 0, record.first_share
        while share >= 0:
            held = state.shares[0, share]
            row[at : at + held.gpus] = held.job
            at += int(held.gpus)
            share = held.next_of_node
        owners.append(row)
    return owners


def _amounts(state: State, node: int) -> tuple[float, float]:
    """Cores and memory (GB) that the jobs of a node hold; amounts that are not assigned yet count as 0."""
    cpus = memory = 0.0
    share = state.nodes[0, node].first_share
    while share >= 0:
        held = state.shares[0, share]
        cpus, memory = cpus + float(np.nan_to_num(held.cpus)), memory + float(np.nan_to_num(held.memory))
        share = held.next_of_node
    return cpus, memory


def describe_scene(scene: Scene) -> str:
    """Describe a scene as text: a line about the jobs, and for each node its type and the job on each GPU."""
    lines = [
        f"t = {scene.time:,.0f} s   running {len(scene.running)}   waiting {len(scene.waiting)}   "
        f"free GPUs {scene.num_free}"
    ]
    for n, row in enumerate(scene.owners):
        cells = " ".join("   ." if job == FREE else "   x" if job == DOWN else f"{job:4d}" for job in row)
        lines.append(f"node_{n:<4d} {scene.types[n]:>6s} | {cells}")
    return "\n".join(lines)
