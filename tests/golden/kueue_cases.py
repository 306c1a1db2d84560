"""Convert the table tests of Kueue's fair preemption into facts: queues, admitted jobs, the incoming one, its victims.

    git show HEAD:pkg/scheduler/preemption/preemption_fair_test.go > fair.go    # in a checkout of kubernetes-sigs/kueue
    python -m tests.golden.kueue_cases fair.go                                  # writes tests/golden/kueue_cases.json

CPUs of the tests count as GPUs. A case that needs a feature which `baselines.Kueue` does not have keeps its name and
that feature.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

CASES = Path(__file__).with_suffix(".json")
_POLICIES = {"Never": "never", "LowerPriority": "lower_priority", "Any": "any"}
_STRATEGIES = {"LessThanOrEqualToFinalShare": "final", "LessThanInitialShare": "initial"}


def convert(source: str) -> list[dict[str, Any]]:
    """Return the cases of the first table of a Go file, in order."""
    table = source.split("func Test")[1]
    shared = table[table.index("baseCQs := ") : table.index("unitWl := ")]
    body = table[table.index("cases := map") : table.index("\n\tfor name, tc := range cases")]
    parts = re.split(r'^\t\t"(.*)": \{$', body, flags=re.MULTILINE)[1:]
    return [_case(name, text, shared) for name, text in zip(parts[::2], parts[1::2], strict=True)]


def _case(name: str, text: str, shared: str) -> dict[str, Any]:
    fields = re.split(r"^\t\t\t(\w+): ", re.sub(r"^\s*//.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    field = dict(zip(fields[::2], fields[1::2], strict=True))
    queues = shared if "baseCQs" in field["clusterQueues"] else field["clusterQueues"]
    if "flavors" in field:
        return {"name": name, "missing": "several resource flavors"}
    victims = re.findall(r'targetKeyReason\("/([^"]+)"', field.get("wantPreempted", ""))
    strategies = re.findall(r"config\.(LessThan\w+)", field.get("strategies", "")) or list(_STRATEGIES)
    return {
        "name": name,
        "queues": _queues(queues, field.get("cohorts", "")),
        "admitted": [_job(line) for line in field.get("admitted", "").splitlines() if "SimpleReserveQuota" in line],
        "incoming": _job(field["incoming"]) | {"queue": _first(r'"(.*?)"', field["targetCQ"])},
        "strategies": [_STRATEGIES[each] for each in strategies],
        "victims": sorted(victims),
    }


def _queues(queues: str, cohorts: str) -> list[dict[str, Any]]:
    """Return the settings of all queues; cohorts that are only named have none of their own."""
    found: dict[str, dict[str, Any]] = {}
    for word, text in (("Cohort", cohorts), ("ClusterQueue", queues)):
        for chunk in text.split(f"Make{word}(")[1:]:
            name = _first(r'^"(.*?)"', chunk)
            settings: dict[str, Any] = {"name": name, "parent": _first(r'\.?(?:Cohort|Parent)\("(.*?)"\)', chunk)}
            quota = re.search(r"Resource\(corev1.ResourceCPU((?:, \"[^\"]*\")+)\)", chunk)
            limits = list(re.findall(r'"([^"]*)"', quota[1])) if quota else ["0"]
            for key, value in zip(("nominal", "borrowing_limit", "lending_limit"), limits, strict=False):
                if value:
                    settings[key] = float(value)
            if weight := _first(r'FairWeight\(resource.MustParse\("(.*?)"\)\)', chunk):
                settings["weight"] = float(weight)
            for key, go in (("within_queue", "WithinClusterQueue"), ("reclaim", "ReclaimWithinCohort")):
                settings[key] = _POLICIES[_first(go + r":\s*kueue\.PreemptionPolicy(\w+)", chunk) or "Never"]
            found[name] = settings
    parents = {settings["parent"] for settings in found.values()} - {""}
    for name in sorted(parents - found.keys()):
        found[name] = {"name": name}
    return list(found.values())


def _job(text: str) -> dict[str, Any]:
    return {
        "name": _first(r'(?:MakeWorkload|Name)\("(.*?)"', text),
        "queue": _first(r'SimpleReserveQuota\("(.*?)", "default", now\)', text),
        "gpus": float(_first(r'Request\(corev1.ResourceCPU, "(.*?)"\)', text) or 1),
        "priority": float(_first(r"Priority\((-?\d+)\)", text) or 0),
    }


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


if __name__ == "__main__":
    rows = [json.dumps(case) for case in convert(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    CASES.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
