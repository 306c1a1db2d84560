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
    if not run.recording:
        print(f"watching {setup.cluster.num_nodes} nodes with {setup.cluster.num_gpus} GPUs; Ctrl-C ends", flush=True)
    changes = 0
    try:
        for now, jobs, down in itertools.islice(looks, run.looks):
            rounds = shadow.num_rounds
            found = shadow.look(now, jobs, down)
            changes += len(found)
            said = [f"job {as_line(name)}: {change}" for name, change in found.items()]
            if not run.recording and shadow.num_rounds > rounds and not found:
                held = sum(each.gpus is not None for each in jobs)
                said = [f"nothing to change; jobs that run: {held}, that wait: {len(jobs) - held}"]
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
            print("".join(f"{when}  {line}\n" for line in said), end="", flush=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(say_how_much(shadow, changes, journal)) from None
    finally:
        journal.close()
    print(say_how_much(shadow, changes, journal))


def say_how_much(shadow: Shadow, changes: int, journal: Journal) -> str:
    """Return the last line: how many rounds there were, what the scheduler would have changed, and where that is."""
    counts = ", ".join(f"{count} {name}" for name, count in sorted(journal.counts.items()))
    return f"{shadow.num_rounds} rounds, {changes} changes ({counts or 'none'}): {os.path.relpath(journal.path)}"


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
