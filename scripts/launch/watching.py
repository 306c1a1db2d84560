"""Schedulers that watch a cluster in shadow mode."""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from deployment.bridge import JOURNAL, check_nodes
from deployment.journal import Journal
from deployment.mirror import Mirror
from deployment.shadow import ObservedJob, Shadow
from deployment.slurm.observing import observe_queue, observe_recording
from deployment.slurm.rest import find_adapter
from envs.types import ClusterSpec, NodeId, as_line
from launch.descriptions import ShadowRun
from launch.films import find_actor
from launch.inputs import build_inputs

Look = tuple[float, list[ObservedJob], frozenset[NodeId]]


def watch_cluster(run: ShadowRun, folder: Path) -> None:
    """Print what the scheduler of a run would change, line by line, and write it to the journal of the run.

    Raises:
        ChoiceError: not one scheduler is chosen.
        MurmurationError: the recording is damaged, or the cluster has other nodes than the setup.
        ActionRefusedError: Slurm does not answer.
    """
    setup = build_inputs(run.problem).setup
    journal = Journal(folder / JOURNAL)
    shadow = Shadow(find_actor(run), Mirror(setup, [run.model], most_gpus=setup.cluster.num_gpus), run.model, journal)
    looks = _recorded(run.recording, setup.cluster) if run.recording else _live(run, setup.cluster)
    changes = 0
    for now, jobs, down in itertools.islice(looks, run.looks):
        found = shadow.look(now, jobs, down)
        changes += len(found)
        for name, change in found.items():
            print(
                f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}  job {as_line(name)}: {change}", flush=True
            )
    journal.close()
    counts = ", ".join(f"{count} {name}" for name, count in sorted(journal.counts.items()))
    print(f"{shadow.num_rounds} rounds, {changes} changes ({counts or 'none'}): {os.path.relpath(folder / JOURNAL)}")


def _recorded(path: Path, cluster: ClusterSpec) -> Iterator[Look]:
    return ((now, jobs, frozenset()) for now, jobs in observe_recording(path, cluster))


def _live(run: ShadowRun, cluster: ClusterSpec) -> Iterator[Look]:
    """Yield the cluster as it is now, again and again."""
    adapter = find_adapter(run.rest)
    nodes = adapter.nodes()
    check_nodes(nodes, cluster)
    names = [node.name for node in nodes]
    while True:
        up = {node.name for node in nodes if node.up}
        down = frozenset(i for i, name in enumerate(names) if name not in up)
        yield time.time(), observe_queue(adapter.queue(), names), down
        time.sleep(run.interval)
        nodes = adapter.nodes()
