"""The messages between a cluster and a scheduler, version 1: one JSON object on one line, shaped as Batsim's.

docs/how_to/real_cluster.md documents them. A message has `version`, `now` and `events`; an event has `timestamp`,
`type` and `data`. NaN is null.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from deployment.reading import Entry, ProtocolError, parse_json
from deployment.state import ClusterState, Decision, JobState
from envs.types import LATEST_SUBMISSION, MAX_NODES, ClusterSpec, ExecutionPlan, JobSpec, NodeSpec, Placement

VERSION = 1
MOST_JOBS = 10_000_000
MOST_GPUS = 1_000_000
MOST_SLOTS = 2**20  # nodes times the GPUs of the largest one: so many the engine keeps room for
MOST_TYPES = 100  # of GPUs
MOST_NAMES = 10_000  # of models, and of tenants
LARGEST = 1e30  # of all amounts: sums and products of them stay finite
NODE_FIELDS = tuple(field.name for field in fields(NodeSpec))
# Constraints are a part of the name of the model.
JOB_FIELDS = tuple(field.name for field in fields(JobSpec) if field.name not in ("id", "constraints"))
PLACEMENT_FIELDS = ("gpus", "cpus", "memory", "plan", "batch_size", "beside")
PLAN_FIELDS = tuple(field.name for field in fields(ExecutionPlan))
AMOUNTS = ("remaining_work", "throughput", "ready_time", "segment", "start_time", "work_done")
COUNTS = ("num_restarts", "num_preemptions", "num_interruptions")
STATE_FIELDS = ("job_id", "placement", "attained_service", "likely_work", *AMOUNTS, *COUNTS)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first message of a cluster.

    Attributes:
        cluster: the nodes.
        models: models that jobs may have, in the order of the view's tables.
        tenants: likewise.
        most_gpus: the largest job that comes, as far as that is known.
        random_state: of the scheduler's generator, as `bit_generator.state` of a NumPy `PCG64` has it; None for seed 0.
    """

    cluster: ClusterSpec
    models: tuple[str, ...]
    tenants: tuple[str, ...]
    most_gpus: int
    random_state: tuple[int, int] | None

    @property
    def rng(self) -> np.random.Generator:
        """The scheduler's generator."""
        bits = np.random.PCG64(0)
        if self.random_state is not None:
            state, inc = self.random_state
            bits.state = {
                "bit_generator": "PCG64",
                "state": {"state": state, "inc": inc},
                "has_uint32": 0,
                "uinteger": 0,
            }
        return np.random.Generator(bits)


def state_of(rng: np.random.Generator) -> tuple[int, int] | None:
    """Return the `random_state` of a fresh generator; None for one of another form."""
    found: Any = rng.bit_generator.state
    if found["bit_generator"] != "PCG64":
        return None
    return int(found["state"]["state"]), int(found["state"]["inc"])


def _message(now: float, *events: tuple[str, dict[str, Any]]) -> bytes:
    listed = [{"timestamp": now, "type": name, "data": data} for name, data in events]
    return json.dumps({"version": VERSION, "now": now, "events": listed}, allow_nan=False).encode() + b"\n"


def write_beginning(beginning: Beginning) -> bytes:
    """Return the line of SIMULATION_BEGINS."""
    data = {
        "name": beginning.cluster.name,
        "nodes": [asdict(node) for node in beginning.cluster.nodes],
        "models": list(beginning.models),
        "tenants": list(beginning.tenants),
        "most_gpus": beginning.most_gpus,
        "random_state": None if beginning.random_state is None else list(map(str, beginning.random_state)),
    }
    return _message(0.0, ("SIMULATION_BEGINS", data))


def write_round(state: ClusterState) -> bytes:
    """Return the line of a round: what is new, then REQUESTED_CALL.

    New are DECISION_REFUSED, if the last decision was, JOB_SUBMITTED and JOB_COMPLETED.
    """
    events: list[tuple[str, dict[str, Any]]] = (
        [("DECISION_REFUSED", {"message": state.refused})] if state.refused else []
    )
    events += [("JOB_SUBMITTED", {"job_id": spec.id, "job": _job(spec)}) for spec in state.submitted]
    for job, service in state.completed.items():
        ended: dict[str, Any] = {"job_id": job, "attained_service": service}
        if job in state.completed_work:
            ended["work"] = state.completed_work[job]
        events.append(("JOB_COMPLETED", ended))
    called = {"down": sorted(state.down), "jobs": [_state(each) for each in state.jobs]}
    return _message(state.time, *events, ("REQUESTED_CALL", called))


def write_decision(now: float, decision: Decision) -> bytes:
    """Return the line of an answer: EXECUTE_JOB, STOP_JOB and CALL_ME_LATER."""
    events: list[tuple[str, dict[str, Any]]] = [
        ("EXECUTE_JOB", {"job_id": int(job), "placement": write_placement(placement)})
        if placement
        else ("STOP_JOB", {"job_id": int(job)})
        for job, placement in decision.placements.items()
    ]
    if decision.next_decision < math.inf:
        events.append(("CALL_ME_LATER", {"timestamp": float(decision.next_decision)}))
    return _message(now, *events)


def write_error(now: float, text: str) -> bytes:
    """Return the line that refuses a message."""
    return _message(now, ("ERROR", {"message": text}))


def _job(spec: JobSpec) -> dict[str, Any]:
    values = {name: getattr(spec, name) for name in JOB_FIELDS}
    for name, none in (("time_limit", math.inf), ("priority", 0.0), ("nice", 0.0), ("qos", "")):
        if values[name] == none:
            del values[name]
    return values | {"work": _known(spec.work), "plan": None if spec.plan is None else asdict(spec.plan)}


def _state(state: JobState) -> dict[str, Any]:
    values: dict[str, Any] = {name: _known(getattr(state, name)) for name in ("attained_service", *AMOUNTS)}
    values |= {name: getattr(state, name) for name in COUNTS}
    values |= {"likely_work": list(state.likely_work)}
    return {"job_id": state.job, "placement": write_placement(state.placement) if state.placement else None, **values}


def write_placement(placement: Placement) -> dict[str, Any]:
    """Return a placement as JSON values, by node number; see `read_placement`."""
    amounts = {name: getattr(placement, name) for name in ("gpus", "cpus", "memory")}
    data: dict[str, Any] = {
        name: {str(int(n)): (int if name == "gpus" else float)(x) for n, x in found.items()}  # NumPy's have no JSON
        for name, found in amounts.items()
        if found is not None
    }
    if placement.plan is not None:
        data["plan"] = asdict(placement.plan)
    for name in ("batch_size", "beside"):
        if getattr(placement, name) is not None:
            data[name] = int(getattr(placement, name))
    return data


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read_message(line: bytes, place: str) -> tuple[float, list[tuple[str, Entry]]]:
    """Return the time of a message and its events: their types and data.

    Raises:
        ProtocolError: it is none, or is of another version.
    """
    message = parse_json(line, place)
    message.only("version", "now", "events")
    version = message.field("version")
    if version.value != VERSION or isinstance(version.value, bool):
        raise version.refuse(f"{VERSION}, the version of the protocol that is spoken here")
    now = message.field("now").number(most=LATEST_SUBMISSION)
    events = []
    for event in message.field("events").items(MOST_JOBS):
        event.only("timestamp", "type", "data")
        event.field("timestamp").number(most=LATEST_SUBMISSION)
        events.append((event.field("type").text(), event.field("data")))
    return now, events


def read_beginning(data: Entry) -> Beginning:
    """Read the data of SIMULATION_BEGINS.

    Raises:
        ProtocolError: it has another form.
        ClusterError: a node cannot exist.
    """
    data.only("name", "nodes", "models", "tenants", "most_gpus", "random_state")
    nodes = tuple(_read_node(each) for each in data.field("nodes").items(MAX_NODES))
    slots, types = len(nodes) * max((node.num_gpus for node in nodes), default=0), {node.gpu_type for node in nodes}
    if slots > MOST_SLOTS or len(types) > MOST_TYPES:
        raise ProtocolError(
            f"{data.place}: {len(nodes):,} nodes of {len(types)} GPU types have room for {slots:,} GPUs if all are as "
            f"large as the largest one; at most {MOST_SLOTS:,} and {MOST_TYPES} GPU types are answered"
        )
    name = data.optional("name")
    known = {
        key: tuple(each.text() for each in entry.items(MOST_NAMES)) if (entry := data.optional(key)) else ()
        for key in ("models", "tenants")
    }
    most, random = data.optional("most_gpus"), data.optional("random_state")
    state = None if random is None else [_read_state_word(each) for each in random.items(2)]
    if random is not None and (state is None or len(state) != 2):
        raise random.refuse("two whole numbers as texts, state and inc of a PCG64, or null")
    return Beginning(
        ClusterSpec(nodes, "cluster" if name is None else name.text()),
        known["models"],
        known["tenants"],
        1 if most is None else most.whole(1, MOST_GPUS),
        None if state is None else (state[0], state[1]),
    )


def _read_state_word(entry: Entry) -> int:
    text = entry.text(40)
    if not (text.isascii() and text.isdecimal() and int(text) < 2**128):
        raise entry.refuse("a whole number below 2**128, as a text")
    return int(text)


def _read_node(entry: Entry) -> NodeSpec:
    entry.only(*NODE_FIELDS)
    amounts = {
        name: found.number(most=LARGEST)
        for name in ("cpu_cores", "memory", "intra_node_bandwidth", "inter_node_bandwidth")
        if (found := entry.optional(name))
    }
    rack = entry.optional("rack")
    return NodeSpec(
        entry.field("gpu_type").text(),
        entry.field("num_gpus").whole(1, 1024),
        **amounts,
        rack=0 if rack is None else rack.whole(0, MAX_NODES),
    )


def read_round(now: float, events: list[tuple[str, Entry]]) -> ClusterState:
    """Read the events of a round.

    Raises:
        ProtocolError: they have another form, or the last one is no REQUESTED_CALL.
        MurmurationError: a job cannot exist.
    """
    submitted: list[JobSpec] = []
    completed: dict[int, float] = {}
    completed_work: dict[int, float] = {}
    if not events or events[-1][0] != "REQUESTED_CALL":
        raise ProtocolError(
            f"message at now = {now:g}: its last event must be REQUESTED_CALL, with the state of the cluster"
        )
    refused = ""
    for name, data in events[:-1]:
        if name == "DECISION_REFUSED":
            data.only("message")
            refused = data.field("message").text(100_000)
        elif name == "JOB_SUBMITTED":
            data.only("job_id", "job")
            submitted.append(_read_job(data.field("job_id").whole(0, MOST_JOBS), data.field("job")))
        elif name == "JOB_COMPLETED":
            data.only("job_id", "attained_service", "work")
            job, service = data.field("job_id").whole(0, MOST_JOBS), data.optional("attained_service")
            completed[job] = 0.0 if service is None else service.number(most=LARGEST)
            if work := data.optional("work"):
                completed_work[job] = work.number(most=LARGEST)
        else:
            raise ProtocolError(
                f"{data.place}: event type {name!r}; types are DECISION_REFUSED, JOB_SUBMITTED, JOB_COMPLETED, "
                "REQUESTED_CALL"
            )
    call = events[-1][1]
    call.only("down", "jobs")
    down = call.optional("down")
    return ClusterState(
        now,
        tuple(submitted),
        completed,
        frozenset() if down is None else frozenset(each.whole(0, MAX_NODES) for each in down.items()),
        tuple(_read_state(each) for each in call.field("jobs").items(MOST_JOBS)),
        completed_work,
        refused,
    )


def _read_job(job: int, entry: Entry) -> JobSpec:
    entry.only(*JOB_FIELDS)
    values: dict[str, Any] = {}
    for name in ("min_gpus", "max_gpus", "min_batch", "max_batch"):
        if found := entry.optional(name):
            values[name] = found.whole(0, MOST_GPUS * 1000)
    for name in ("tenant", "name", "user", "qos"):
        if found := entry.optional(name):
            values[name] = found.text()
    for name, least in (("time_limit", 0.0), ("priority", -LARGEST), ("nice", -LARGEST)):
        if found := entry.optional(name):
            values[name] = found.number(least, LARGEST)
    if found := entry.optional("guaranteed"):
        values["guaranteed"] = found.switch()
    if found := entry.optional("plan"):
        values["plan"] = _read_plan(found)
    work = entry.optional("work")
    return JobSpec(
        job,
        entry.field("submit_time").number(most=LATEST_SUBMISSION),
        entry.field("num_gpus").whole(1, MOST_GPUS),
        math.nan if work is None else work.number(most=LARGEST),
        entry.field("model").text(),
        **values,
    )


def _read_state(entry: Entry) -> JobState:
    entry.only(*STATE_FIELDS)
    placement, likely = entry.optional("placement"), entry.optional("likely_work")
    numbers: dict[str, Any] = entry.amounts(AMOUNTS, LARGEST)
    counts = {name: found.whole(0, 2**31 - 1) for name in COUNTS if (found := entry.optional(name))}
    service = entry.optional("attained_service")
    return JobState(
        entry.field("job_id").whole(0, MOST_JOBS),
        None if placement is None else read_placement(placement),
        0.0 if service is None else service.number(most=LARGEST),
        likely_work=() if likely is None else tuple(each.number(most=LARGEST) for each in likely.items(1000)),
        **numbers,
        **counts,
    )


def read_placement(entry: Entry) -> Placement:
    """Read a placement, by node number.

    Raises:
        ProtocolError: it has another form.
    """
    entry.only(*PLACEMENT_FIELDS)
    gpus = {node: each.whole(1, 1024) for node, each in entry.field("gpus").by_number()}
    if not gpus:
        raise entry.refuse("a placement with at least one GPU")
    amounts: dict[str, Mapping[int, float]] = {
        name: {node: each.number(most=LARGEST) for node, each in found.by_number()}
        for name in ("cpus", "memory")
        if (found := entry.optional(name))
    }
    for name, by_node in amounts.items():
        if set(by_node) != set(gpus):
            raise ProtocolError(
                f"{entry.place}.{name}: names nodes {sorted(by_node)}; name those of gpus, {sorted(gpus)}"
            )
    chosen, batch = entry.optional("plan"), entry.optional("batch_size")
    plan = None if chosen is None else _read_plan(chosen)
    size = None if batch is None else batch.whole(1, 10**9)
    beside = entry.optional("beside")
    owner = None if beside is None else beside.whole(0, MOST_JOBS)
    return Placement(gpus, amounts.get("cpus"), amounts.get("memory"), plan, size, owner)


def _read_plan(entry: Entry) -> ExecutionPlan:
    entry.only(*PLAN_FIELDS)
    values: dict[str, Any] = {}
    for name in PLAN_FIELDS:
        if found := entry.optional(name):
            values[name] = found.switch() if name in ("offload", "checkpointing") else found.whole(0, 10**6)
    try:
        return ExecutionPlan(**values)
    except ValueError as error:
        raise ProtocolError(f"{entry.place}: {error}") from None


def read_decision(events: list[tuple[str, Entry]]) -> Decision:
    """Read the events of an answer.

    Raises:
        ProtocolError: they have another form, or refuse the message that was sent.
    """
    placements: dict[int, Placement | None] = {}
    later = math.inf
    for name, data in events:
        if name == "ERROR":
            raise ProtocolError(f"the scheduler refuses: {data.field('message').text(100_000)}")
        if name == "CALL_ME_LATER":
            later = data.field("timestamp").number()
            continue
        if name not in ("EXECUTE_JOB", "STOP_JOB"):
            raise ProtocolError(
                f"{data.place}: event type {name!r}; types are EXECUTE_JOB, STOP_JOB, CALL_ME_LATER, ERROR"
            )
        job = data.field("job_id").whole(0, MOST_JOBS)
        if job in placements:
            raise ProtocolError(f"{data.place}: names job {job} twice; name each job once")
        placements[job] = read_placement(data.field("placement")) if name == "EXECUTE_JOB" else None
    return Decision(placements, later)
