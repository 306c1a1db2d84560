"""GPUs that pods request and hold, read from objects of the Kubernetes API."""

import math
from collections import Counter

from deployment.reading import Entry, ProtocolError

GPU = "nvidia.com/gpu"
UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTP", 1)
}
OVER = ("Succeeded", "Failed")


def quantity(entry: Entry) -> float:
    """Return a quantity such as "8", "64250m", "1e3" or "527942Mi" as a number.

    Raises:
        ProtocolError: it is none.
    """
    text = entry.text(40)
    digits = text.rstrip("kKMGTPim")
    try:
        found = float(digits) * UNITS[text[len(digits) :]]
    except (ValueError, KeyError):
        found = math.nan
    if not (math.isfinite(found) and found >= 0.0):
        raise entry.refuse("a quantity such as 8, 64250m or 527942Mi")
    return found


def field_text(entry: Entry, *names: str) -> str:
    """Return the text of a nested field; empty where it is absent."""
    found: Entry | None = entry
    for name in names:
        found = found.optional(name) if found is not None else None
    return found.text(100_000) if found is not None else ""


def gpus_of_pod(pod: Entry) -> int:
    """Return the GPUs that the containers of a pod ask for together.

    Raises:
        ProtocolError: a quantity does not parse.
    """
    total = 0.0
    for container in pod.field("spec").field("containers").items():
        resources = container.optional("resources")
        for part in ("requests", "limits"):
            asked = resources.optional(part) if resources is not None else None
            count = asked.optional(GPU) if asked is not None else None
            if count is not None:
                total += quantity(count)
                break
    return int(total)


def gpus_in_use(pods: list[Entry]) -> tuple[Counter[str], list[str]]:
    """Return the GPUs that pods hold by node, and one line for each pod that cannot be read.

    Pods that are being ended hold theirs until they are gone.
    """
    held, faults = Counter[str](), []
    for pod in pods:
        try:
            node = field_text(pod, "spec", "nodeName")
            if node and field_text(pod, "status", "phase") not in OVER:
                held[node] += gpus_of_pod(pod)
        except ProtocolError as error:
            faults.append(str(error))
    return held, faults
