"""Traces on a real cluster: probes, the play of each scheduler with a live table, and the comparison."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from rich.live import Live
from rich.table import Table

from deployment.adapter import ActionRefusedError, ClusterAdapter, name_owner
from deployment.bridge import Bridge
from deployment.clock import SteadyClock
from deployment.comparison import COLUMNS, DeployedResult, compare_plays
from deployment.deciding import LocalScheduler
from deployment.journal import CARRIED_OUT, POSTPONED, REFUSED
from deployment.kubernetes.adapter import KubernetesAdapter
from deployment.kubernetes.api import KubernetesApi
from deployment.measuring import MeasuredLatencies, measure_latencies
from deployment.mirror import Mirror
from deployment.records import JobRun
from deployment.slurm.rest import find_adapter
from deployment.slurm.testbed import find_testbed
from deployment.state import ClusterState, JobState
from envs.evaluation.files import write_frame, write_whole
from envs.pictures.texts import wide_console
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Setup, Simulator, run_episode
from envs.simulation.world.exact import ExactThroughputs
from envs.types import Seconds, as_line
from envs.workloads import Workload
from murmuration.config.descriptions import DeploymentRun
from murmuration.config.errors import ChoiceError
from murmuration.config.honoured import build_able
from murmuration.config.inputs import build_inputs, find_workloads
from murmuration.home import ROOT

START = "begun.json"
OWNER = "bridge.txt"  # the id of the bridge that the notes of its tasks have


def deploy_run(run: DeploymentRun, folder: Path) -> None:
    """Play the schedulers of a run on the cluster, one after the other, and compare them with the simulator.

    Raises:
        ChoiceError: the scenario has rules that a sleeping job cannot follow.
        MurmurationError: there is no test cluster, or it has other nodes.
        ActionRefusedError: the cluster does not answer.
    """
    inputs = build_inputs(run.problem)
    setup, workload = inputs.setup, scale_down(find_workloads(inputs, None, 1)[0], run.shorten, run.jobs)
    check_playable(setup)
    chosen = actors(run, workload)
    adapter = choose_adapter(run)
    place = Path(run.continued) if run.continued else folder
    with nullcontext("") if run.rules.shadow else claim_cluster(adapter, place) as owner:
        measured = MeasuredLatencies()
        if not run.rules.shadow:
            measured = probe(adapter, f"{owner}-probes", place, run.probes)
            print(f"measured before, mean of {run.probes}, in real time: {measured}", flush=True)
        results = [
            play_on_cluster(run, name, f"{owner}-{number}", actor, setup, workload, adapter, measured, place)
            for number, (name, actor) in enumerate(chosen)
        ]
    table = compare_table(results)
    wide_console().print(table)
    write_frame(place / "results.csv", list_means(results))


def choose_adapter(run: DeploymentRun) -> ClusterAdapter:
    """Return the adapter to the Kubernetes or the Slurm cluster of a run.

    Raises:
        MurmurationError: the cluster of the run cannot be found.
    """
    if run.kubeconfig:
        return KubernetesAdapter(KubernetesApi(Path(run.kubeconfig)), grace=run.rules.grace)
    return find_adapter(run.rest, find_testbed(Path(run.testbed)).environment if run.testbed else None)


@contextmanager
def claim_cluster(adapter: ClusterAdapter, folder: Path) -> Iterator[str]:
    """Claim the cluster for the bridge of a run, and give the claim up once no task of it is left.

    So another bridge is refused also while this one is interrupted or killed: its tasks go on.

    Raises:
        ClusterTakenError: another bridge has the claim.
        ActionRefusedError: the cluster does not answer.
    """
    kept = folder / OWNER
    if not kept.exists():
        write_whole(kept, name_owner(adapter.user))
    owner = kept.read_text(encoding="utf-8").strip()
    adapter.claim(owner)
    try:
        yield owner
    finally:
        with suppress(ActionRefusedError):  # then the claim stays, too
            present = [task for task in adapter.tasks() if task.note.owner.startswith(f"{owner}-")]
            if all(task.state == "ended" for task in present):
                adapter.leave(owner)


def actors(run: DeploymentRun, workload: Workload) -> list[tuple[str, Scheduler]]:
    """Return the schedulers and the policy of a run, by name.

    Raises:
        ChoiceError: a scheduler does not honour the constraints of the jobs.
    """
    found = build_able(run.schedulers, [workload])
    if run.checkpoint:
        from murmuration.runs.policies import load_policies  # needs torch

        found |= load_policies(run.checkpoint, run.trusted, sampled=run.sampled)
    return list(found.items())


def scale_down(workload: Workload, factor: float, count: int | None) -> Workload:
    """Return the first jobs of a workload with submit times and work divided by a factor."""
    found = workload.slice(0, len(workload) if count is None else count)
    jobs = found.jobs.copy()
    for column in ("submit_time", "work", "duration"):
        jobs[column] /= factor
    return replace(found, jobs=jobs, window=(0.0, np.inf))


def check_playable(setup: Setup) -> None:
    """Check that sleeping jobs can follow the scenario.

    Raises:
        ChoiceError: they cannot.
    """
    scenario = setup.scenario
    given = {
        "contention.mode=off": scenario.contention.mode == "off",
        "cpu_memory=unlimited": scenario.cpu_memory == "unlimited",
        "failures=null": scenario.failures is None,
    }
    if wrong := [name for name, fits in given.items() if not fits]:
        raise ChoiceError(f"scenario: a job that sleeps cannot follow its rules; set scenario.{wrong[0]}")


def sleeper(folder: Path, segment: int, *numbers: float) -> list[str]:
    """Return the command of a job that sleeps."""
    path = f"PYTHONPATH={ROOT}"
    return [
        "env",
        path,
        sys.executable,
        "-S",
        "-m",
        "deployment.sleeper",
        str(folder),
        str(segment),
        *map(repr, numbers),
    ]


def probe(adapter: ClusterAdapter, owner: str, folder: Path, count: int) -> MeasuredLatencies:
    """Measure the latencies of a cluster, or read what was measured when the run began."""
    kept = folder / "latencies.json"
    if not kept.exists():
        found = measure_latencies(
            adapter, owner, lambda place, k: sleeper(place, k, 1e9, 1.0, 0.0), (folder / "probes").resolve(), count
        )
        write_whole(kept, json.dumps(vars(found), indent=1))
    return MeasuredLatencies(**json.loads(kept.read_text(encoding="utf-8")))


def play_on_cluster(
    run: DeploymentRun,
    name: str,
    owner: str,
    actor: Scheduler,
    setup: Setup,
    workload: Workload,
    adapter: ClusterAdapter,
    measured: MeasuredLatencies,
    folder: Path,
) -> DeployedResult:
    """Play one scheduler in the simulator, with and without latencies, and on the cluster."""
    scale, scenario, seed = run.rules.scale, setup.scenario, run.problem.seed

    def slower(start: Seconds, restart: Seconds) -> Setup:
        delays = scenario.start_delay + start * scale, scenario.restart_delay + restart * scale
        return replace(setup, scenario=replace(scenario, start_delay=delays[0], restart_delay=delays[1]))

    def simulate(setup: Setup) -> RunResult:
        return run_episode(deepcopy(actor), Simulator(workload, setup, seed), name)

    simulated, costs = simulate(setup), measured.costs(run.rules.interval)
    with_latencies = [simulate(slower(*each)) for each in costs] or [simulated]
    known = slower(*np.mean(costs, axis=0).tolist()) if costs else setup  # by the scheduler on the cluster
    place = (folder / name).resolve()
    warm_up(actor, setup, workload)
    clock = SteadyClock(scale, find_beginning(place))
    write_whole(place / START, json.dumps({"began": clock.began}))
    bridge = Bridge(adapter, owner, setup, list(workload), sleeping(setup, scale), place, run.rules, clock)
    most = int(workload.jobs["max_gpus"].max())
    scheduler = LocalScheduler(
        deepcopy(actor),
        Mirror(known, workload.models, workload.tenants, most),
        Simulator(workload, setup, seed).rng,
    )
    until = 2.0 * simulated.end_time if run.rules.shadow else 20.0 * simulated.end_time
    with Live(live_table(name, bridge), console=wide_console(), refresh_per_second=2, transient=True) as live:
        bridge.play(scheduler, lambda now: live.update(live_table(name, now)), until)
    bridge.journal.close()
    for lost in (each for each in bridge.runs if each.given_up):
        where = as_line(str(lost.folder))
        print(f"note: {name}: job {lost.spec.id} was given up, as it never got any further; see {where}")
    if refused := bridge.journal.counts["decision refused"]:
        print(f"note: {name}: {refused} decisions were refused; {as_line(str(bridge.journal.path))} says why")
    found = compare_plays(name, simulated, with_latencies, bridge.runs, scale, counts_of(bridge))
    write_frame(folder / f"{name}.csv", pd.DataFrame(found.table, columns=list(COLUMNS)))
    return found


def warm_up(actor: Scheduler, setup: Setup, workload: Workload) -> None:
    """Let a copy of a scheduler decide once, so that no kernel is compiled or loaded while the cluster waits."""
    first = workload.spec(0)
    scheduler = LocalScheduler(deepcopy(actor), Mirror(setup, workload.models), np.random.default_rng(0))
    scheduler.decide(ClusterState(first.submit_time, (first,), jobs=(JobState(0, remaining_work=first.work),)))


def find_beginning(place: Path) -> float | None:
    """Return when an earlier run of a folder began, in seconds since 1970; make the folder where there is none."""
    place.mkdir(parents=True, exist_ok=True)
    kept = place / START
    return float(json.loads(kept.read_text(encoding="utf-8"))["began"]) if kept.exists() else None


def sleeping(setup: Setup, scale: float) -> Callable[[JobRun], Sequence[str]]:
    """Return the function that gives a job's segment its command: sleep as the performance model says."""
    starts, exact = {}, ExactThroughputs(setup)

    def command(run: JobRun) -> Sequence[str]:
        if run.spec.model not in starts:
            first, later = setup.scenario.delays([run.spec.model])
            starts[run.spec.model] = float(first[0]), float(later[0])
        delay: Seconds = starts[run.spec.model][run.segment > 1]
        assert run.placement is not None
        samples = exact.useful_throughput(run.spec.model, run.placement) * scale
        return sleeper(run.folder, run.segment, run.spec.work, samples, delay / scale)

    return command


def counts_of(bridge: Bridge) -> dict[str, int]:
    """Return what happened in a play, by name, also before the bridge was replaced: the journal has all of it."""
    counts = bridge.journal.counts
    named = {
        "rounds": counts["round decided"],
        "postponed by the limit": sum(count for name, count in counts.items() if name.endswith(f" {POSTPONED}")),
        "segments lost": counts[f"lose {CARRIED_OUT}"],
        "looks without an answer": counts[f"look {REFUSED}"],
        "reports that are none": counts[f"report {REFUSED}"],
        "unfinished jobs": sum(not run.done for run in bridge.runs),
    }
    actions = ("start", "stop", "stop again", "kill", "release", "decision", "give up")
    return named | {name: count for name, count in sorted(counts.items()) if name.startswith(actions)}


def live_table(name: str, bridge: Bridge) -> Table:
    """Return the state of a play as a table of one row."""
    runs = bridge.runs[: bridge.submitted]
    held = sum(run.placement.num_gpus for run in runs if run.placement)
    ended = [run.finish_time - run.spec.submit_time for run in runs if run.done]
    table = Table(box=None, header_style="bold", padding=(0, 1))
    cells = {
        "scheduler": name,
        "time": f"{bridge.clock.now():.0f} s",
        "queue": str(sum(not run.done and not run.placement for run in runs)),
        "running": str(sum(run.placement is not None for run in runs)),
        "done": f"{len(ended)}/{len(bridge.runs)}",
        "GPUs": f"{held}/{bridge.cluster.num_gpus}",
        "mean JCT": f"{np.mean(ended):.0f} s" if ended else "",
    }
    for head in cells:
        table.add_column(head, justify="left" if head == "scheduler" else "right")
    table.add_row(*cells.values())
    return table


def list_means(results: Sequence[DeployedResult]) -> pd.DataFrame:
    """Return one row for each scheduler: mean JCTs in seconds, the parts of the difference, and counts."""
    rows = []
    for each in results:
        means = {column: each.mean(column) for column in COLUMNS[1:]}
        plays = {"lowest_with_latencies": each.plays.min(), "highest_with_latencies": each.plays.max()}
        rows.append({"scheduler": each.scheduler, **means, **plays, "difference": each.difference, **each.counts})
    return pd.DataFrame(rows)


def compare_table(results: Sequence[DeployedResult]) -> Table:
    """Return the comparison as a table: mean JCT in seconds, and what the difference is made of."""
    table = Table(box=None, header_style="bold", padding=(0, 1), title="mean JCT in seconds")
    heads = ("scheduler", "simulator", "with latencies", "cluster", "raw", "left", "starts", "stops", "late", "rest")
    for head in (*heads, "preempted or resized"):
        table.add_column(head, justify="left" if head == "scheduler" else "right")
    for each in results:
        raw = each.mean("real") / each.mean("simulated") - 1.0
        parts = [f"{each.mean(name):.1f}" for name in ("start", "stop", "late", "rest")]
        simulated, slower, real = (f"{each.mean(name):.1f}" for name in ("simulated", "with_latencies", "real"))
        times = [simulated, f"{slower} [{each.plays.min():.1f}, {each.plays.max():.1f}]", real]
        stops = sum(each.counts.get(f"{action} carried out", 0) for action in ("stop", "release"))
        table.add_row(each.scheduler, *times, f"{raw:+.1%}", f"{each.difference:+.1%}", *parts, str(stops))
    return table
