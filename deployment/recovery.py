"""Restore the records of jobs from the journal of the previous bridge."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deployment.journal import CARRIED_OUT, DECIDED, INTENDED, MEASURED, REFUSED
from deployment.messages import read_placement
from deployment.reading import Entry, ProtocolError
from deployment.records import JobRun
from envs.types import NodeId, Placement


def recover(runs: Sequence[JobRun], lines: Sequence[dict[str, Any]], nodes: Sequence[str], path: Path) -> None:
    """Bring fresh records of jobs up to date with a journal.

    Args:
        runs: of all jobs, by id.
        lines: of the journal.
        nodes: names of the nodes, in the order of the setup.
        path: of the journal, for errors.

    Raises:
        ProtocolError: a line has another form than this version writes.
    """
    numbers = {name: node for node, name in enumerate(nodes)}
    for number, line in enumerate(lines, 1):
        try:
            if line["action"] == "round" and line["phase"] == DECIDED:
                for job in line["jobs"]:
                    runs[job].latencies.late += line["late"]
            elif isinstance(line.get("job"), int):
                _recover_one(runs[line["job"]], line, numbers)
        except (LookupError, TypeError, ValueError, ProtocolError) as error:
            why = str(error) if isinstance(error, ProtocolError) else f"{type(error).__name__}: {error}"
            raise ProtocolError(
                f"{path}: line {number}: cannot be followed ({why}); go on with the options and the version that began "
                f"the run, or move the file away to begin anew"
            ) from None


def _recover_one(run: JobRun, line: dict[str, Any], nodes: Mapping[str, NodeId]) -> None:
    match line["action"], line["phase"]:
        case "start", phase if phase == INTENDED:
            run.start(line["segment"], _read_placement(line, nodes), line["time"], line["now"])
        case "start", phase if phase == REFUSED:
            run.not_started()
        case "stop", phase if phase == INTENDED:  # whether it was carried out or not, the task is asked again
            run.free(line["time"])
            run.stopping = line["time"]
        case "stop", phase if phase == CARRIED_OUT:
            run.stopped = line["segment"]
            run.num_preemptions += line["preempts"]
        case "stop", phase if phase == MEASURED:
            run.stopped = 0
            run.latencies.add_stop(line["seconds"])
        case "start", phase if phase == MEASURED:
            run.seen_start = line["segment"]
            run.latencies.add_start(line["seconds"])
        case "release", phase if phase == INTENDED:
            run.target = _read_placement(line, nodes)
        case "release", phase if phase == CARRIED_OUT:
            run.follow(_read_placement(line, nodes), line["time"])
        case "release", phase if phase == REFUSED:
            run.num_preemptions += 1
            run.free(line["time"])
        case "lose", _:
            run.lose(line["time"])
            if line["counts"]:
                run.count_loss(line["work_done"])
        case "report", _:
            run.faults.add(line["why"])
        case "give up", _:
            run.given_up = True


def _read_placement(line: dict[str, Any], nodes: Mapping[str, NodeId]) -> Placement:
    placement = read_placement(Entry(line, "it").field("placement"))
    return replace(placement, gpus={nodes[name]: count for name, count in line["gpus"].items()})
