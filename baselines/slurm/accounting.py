"""Read associations and QoS, as `sacctmgr --parsable2 show assoc` and `show qos` print them, one after the other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.slurm.conf import MODES
from baselines.slurm.limits import not_modelled, read_ceiling
from baselines.slurm.settings import ROOT, Association, Qos
from envs.types import MurmurationError

COMMAND = "(sacctmgr --parsable2 show assoc tree; sacctmgr --parsable2 show qos) > accounting.txt"


def read_accounting(path: Path) -> tuple[tuple[Association, ...], dict[str, Qos], tuple[str, ...]]:
    """Return associations, QoS by name, and what of them is not modelled.

    Raises:
        MurmurationError: the file cannot be read, or a line is wrong; the message names the file, line and fix.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise MurmurationError(f"{path}: cannot be read ({error.strerror or error}); make it with {COMMAND}") from error
    associations: list[Association] = []
    qos: dict[str, Qos] = {}
    left_out: dict[str, None] = {}
    header: list[str] = []
    above: list[str] = []  # accounts on the way down to the present line of a tree
    for number, line in enumerate(lines, 1):
        cells = line.split("|")
        if {"Account", "User"} <= set(cells) or {"Name", "Priority"} <= set(cells):
            header = cells
        elif line.strip():
            if len(cells) != len(header):
                raise MurmurationError(
                    f"{path}:{number}: has {len(cells)} fields where its header has {len(header)}; make the file "
                    f"with {COMMAND}"
                )
            row = dict(zip(header, cells, strict=True))
            if "Account" in row:
                associations += _association(f"{path}:{number}", row, above, left_out)
            else:
                qos[row["Name"].lower()] = make_qos(f"{path}:{number}", row["Name"], row)
                left_out |= dict.fromkeys(f"{name} of QoS" for name in not_modelled(row))
    if not header:
        raise MurmurationError(f"{path}: has no table of sacctmgr; make it with {COMMAND}")
    return tuple(associations), qos, tuple(left_out)


def _association(
    place: str, row: Mapping[str, str], above: list[str], left_out: dict[str, None]
) -> Sequence[Association]:
    account, user = row["Account"].strip(), row["User"].strip()
    depth = len(row["Account"]) - len(row["Account"].lstrip())
    share = row.get("Share", row.get("Fairshare", "1"))
    if row.get("Partition", "").strip():
        left_out["associations of one partition"] = None
        return ()
    if share == "parent":
        left_out["Share=parent, which counts as 1"] = None
        share = "1"
    if not share.isdecimal():
        raise MurmurationError(f"{place}: Share is {share[:40]!r}; it must be a whole number, or parent")
    parent = row.get("ParentName", "").strip()
    if not user:
        del above[depth:]
        parent = parent or (above[-1] if above else ROOT)
        above.append(account)
    if account == ROOT and not user:
        return ()
    left_out |= dict.fromkeys(f"{name} of associations" for name in not_modelled(row))
    most = read_ceiling(
        place, row, ("GrpTRES",), ("MaxJobs", "GrpJobs") if user and row.get("MaxJobs") else ("GrpJobs",)
    )
    return (Association(account, user, parent if not user else account, float(share), most),)


def make_qos(place: str, name: str, row: Mapping[str, Any]) -> Qos:
    """Return a QoS from its columns.

    Raises:
        MurmurationError: a value is wrong.
    """
    priority = str(row.get("Priority", "") or "0")
    if not priority.isdecimal():
        raise MurmurationError(f"{place}: Priority is {priority[:40]!r}; it must be a whole number")
    mode = str(row.get("PreemptMode", "") or "").upper()
    if mode not in ("", "CLUSTER", *MODES):
        raise MurmurationError(f"{place}: PreemptMode is {mode[:40]!r}; it must be one of cluster, {', '.join(MODES)}")
    over = tuple(each.strip().lower() for each in str(row.get("Preempt", "") or "").split(",") if each.strip())
    most = read_ceiling(place, row, ("GrpTRES",), ("GrpJobs",))
    of_user = read_ceiling(place, row, ("MaxTRESPU", "MaxTRESPerUser"), ("MaxJobsPU", "MaxJobsPerUser"))
    of_account = read_ceiling(place, row, ("MaxTRESPA", "MaxTRESPerAccount"), ("MaxJobsPA", "MaxJobsPerAccount"))
    return Qos(name, float(priority), over, "" if mode == "CLUSTER" else mode, most, of_user, of_account)
