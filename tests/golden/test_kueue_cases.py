"""Victims that Kueue's own table tests of fair preemption expect, at commit ff69552e (see `kueue_cases`)."""

import json
from typing import Any

import pytest

from baselines.kueue import QueueSettings, QueueTree
from baselines.kueue.preemption import Admitted, Preemption
from tests.golden.kueue_cases import CASES

ALL = json.loads(CASES.read_text(encoding="utf-8"))
KNOWN = [case for case in ALL if "missing" not in case]


def test_cases_are_counted_by_missing_feature():
    assert [case["missing"] for case in ALL if "missing" in case] == ["several resource flavors"]
    assert len(KNOWN) == 34


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case["name"])
def test_victims_are_those_of_kueue(case: dict[str, Any]):
    """Jobs of one instant are numbered against the order of their names, by which Kueue's tests break ties."""
    tree = QueueTree(QueueSettings(**queue) for queue in case["queues"])
    names = sorted((job["name"] for job in case["admitted"]), reverse=True)
    admitted = [_admitted(job, names.index(job["name"])) for job in case["admitted"]]
    for job in admitted:
        tree.use(job.queue, job.gpus)
    before = dict(tree.used)
    head = _admitted(case["incoming"], len(names))
    assert tree.available(head.queue) < head.gpus
    victims = Preemption(tree, True, tuple(case["strategies"])).victims(head, admitted)
    assert sorted(names[victim.job] for victim in victims) == case["victims"]
    assert tree.used == before


def _admitted(job: dict[str, Any], number: int) -> Admitted:
    return Admitted(number, job["queue"], job["gpus"], job["priority"], 0.0, 0.0)
