"""The nodes of a Slurm cluster, from the `NodeName` and `PartitionName` lines of its `slurm.conf`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from baselines.slurm.conf import pairs_of, whole_lines
from envs.types import MAX_NODES, ClusterSpec, MurmurationError, NodeSpec, name_of_nodes

_GPUS = re.compile(r"gpu(?::([A-Za-z][^:,()=]*))?:(\d{1,4})", re.ASCII)
_PLAIN = "gpu"  # the type of GPUs that Gres names none of


@dataclass(frozen=True)
class SlurmSite:
    """A cluster and the names of its nodes, in the same order."""

    cluster: ClusterSpec
    names: tuple[str, ...]


def read_site(path: Path, name: str = "") -> SlurmSite:
    """Return the nodes with GPUs that a `slurm.conf` describes, with partitions as pools; others are left out.

    GPU types are Slurm's own names in `Gres=gpu:a100:8`, in lower case.

    Args:
        path: the file.
        name: of the cluster; that of `ClusterName` if empty.

    Raises:
        MurmurationError: the file cannot be read, a line is wrong, or no node has GPUs.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise MurmurationError(f"{path}: cannot be read ({error.strerror or error}); give a slurm.conf") from error
    nodes: dict[str, dict[str, str]] = {}
    pools: dict[str, list[str]] = {}
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    for number, line in whole_lines(text):
        place = f"{path}:{number}"
        pairs = {key.lower(): value for key, value in pairs_of(place, line)}
        name = name or pairs.get("clustername", "")
        which = next((each for each in defaults if each in pairs), "")
        if not which:
            continue
        if pairs[which].upper() == "DEFAULT":
            defaults[which] |= pairs
        elif which == "nodename":
            nodes |= dict.fromkeys(expand_node_names(place, pairs[which]), defaults[which] | pairs)
        else:
            listed = (defaults[which] | pairs).get("nodes", "")
            members = list(nodes) if listed.upper() == "ALL" else list(expand_node_names(place, listed))
            pools |= {each: members for each in pairs[which].split(",") if each}
    of_node: dict[str, list[str]] = {}
    for pool, members in pools.items():
        for each in members:
            of_node.setdefault(each, []).append(pool)
    made = {each: _node(f"{path}: node {each}", own, of_node.get(each, [])) for each, own in nodes.items()}
    found = {each: node for each, node in made.items() if node is not None}
    if not found:
        raise MurmurationError(f"{path}: no NodeName line has GPUs (Gres=gpu:a100:8); describe the cluster in YAML")
    return SlurmSite(ClusterSpec(tuple(found.values()), name or path.stem), tuple(found))


def _node(place: str, own: dict[str, str], pools: list[str]) -> NodeSpec | None:
    """Return a node; None if it has no GPUs."""
    gpus = _GPUS.findall(own.get("gres", ""))
    if not gpus:
        return None
    types = {gpu_type.lower() or _PLAIN for gpu_type, _ in gpus}
    if len(types) > 1:
        raise MurmurationError(f"{place}: has GPUs of {', '.join(sorted(types))}; a node may have one type")
    cores = int(own["cpus"]) if own.get("cpus", "").isdigit() else 1
    name = name_of_nodes(types.pop(), pools, [each for each in own.get("feature", "").split(",") if each])
    return NodeSpec(name, sum(int(number) for _, number in gpus), float(max(cores, 1)))


def expand_node_names(place: str, text: str) -> Iterator[str]:
    """Yield the names in a list of hosts such as `n[01-03,7],login`.

    Args:
        place: file and line, for messages.
        text: the list; empty for none.

    Raises:
        MurmurationError: a bracket or a range is wrong, or there are too many names.
    """
    count = 0
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", text):
        for name in _expand(place, part):
            count += 1
            if count > MAX_NODES:
                raise MurmurationError(f"{place}: names more than {MAX_NODES:,} nodes")
            yield name


def _expand(place: str, part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inside, closed, tail = rest.partition("]")
    for each in inside.split(","):
        low, _, high = each.partition("-")
        high = high or low
        if not (closed and low.isdigit() and high.isdigit() and int(low) <= int(high)):
            raise MurmurationError(f"{place}: {part[:60]!r} is no list of nodes; write them as n[01-16,20]")
        if int(high) - int(low) >= MAX_NODES:
            raise MurmurationError(f"{place}: {part[:60]!r} names more than {MAX_NODES:,} nodes")
        for number in range(int(low), int(high) + 1):
            for end in _expand(place, tail):
                yield f"{head}{number:0{len(low)}}{end}"
