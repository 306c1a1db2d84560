"""Placing shares on nodes, on views of real rounds."""

from baselines.elastic_dp.placing import held_by, place_over_types, place_shares
from baselines.parts.grants import Grant
from baselines.parts.scalability import AnalysedJobs, Analyser
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, Configuration, JobId, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.worlds import Curved
from tests.unit.baselines.rounds import round_at

NODES = ClusterSpec((NodeSpec("new", 4), NodeSpec("new", 4), NodeSpec("new", 2)))
MIXED = ClusterSpec((NodeSpec("new", 2), NodeSpec("old", 4)))


def many(count: int, least: int = 1, most: int = 8) -> Workload:
    """Create elastic jobs at t = 0 that are too long to end."""
    return Workload.of([JobSpec(i, 0.0, least, 1e6, "any", least, most) for i in range(count)])


def looked_up(view: ClusterView) -> AnalysedJobs:
    known = AnalysedJobs(Analyser(), view.cluster)
    known.look_up(view)
    return known


def placed(
    view: ClusterView, grants: dict[JobId, Grant], held: dict[JobId, Grant] | None = None
) -> tuple[Allocation, dict[JobId, dict[int, int]]]:
    """Return the allocation after `place_shares`, and its placements."""
    allocation = view.allocation(keep_running=True)
    place_shares(view, allocation, looked_up(view), grants, held or {})
    return allocation, {job: dict(its.gpus) for job in sorted(allocation.jobs()) if (its := allocation.placement(job))}


def test_the_largest_go_first_and_fit_best():
    view = round_at(0, many(3), NODES, performance=Curved())
    _, found = placed(view, {0: Grant(0, 2), 1: Grant(0, 4), 2: Grant(0, 4)})
    assert found == {0: {2: 2}, 1: {0: 4}, 2: {1: 4}}


def test_a_share_without_room_on_few_nodes_is_spread():
    """3 + 3 + 4 on nodes of 4, 4 and 2: the last 3 find 1 + 2. Spread over two nodes they have 0.9 times the
    throughput of one piece, which is more than that of 2 GPUs.
    """
    view = round_at(0, many(3), NODES, performance=Curved())
    _, found = placed(view, {0: Grant(0, 3), 1: Grant(0, 3), 2: Grant(0, 4)})
    assert found == {0: {1: 3}, 1: {1: 1, 2: 2}, 2: {0: 4}}


class Unwieldy(Curved):
    """A model that is ten times slower over several nodes."""

    def throughput(self, model, configuration):
        return super().throughput(model, Configuration(configuration.gpu_type, configuration.num_gpus, 1)) / (
            10.0 if configuration.num_nodes > 1 else 1.0
        )


def test_a_share_is_made_smaller_where_spreading_is_slower():
    view = round_at(0, many(3), NODES, performance=Unwieldy())
    _, found = placed(view, {0: Grant(0, 3), 1: Grant(0, 3), 2: Grant(0, 4)})
    assert found == {0: {1: 3}, 1: {2: 2}, 2: {0: 4}}


def test_a_job_without_any_room_does_not_run():
    """Rigid gangs of 3 GPUs: the third finds 1, 1 and 2 and runs on them; a fourth finds one GPU and does not run."""
    view = round_at(0, many(4, 3, 3), NODES, performance=Curved())
    _, found = placed(view, {job: Grant(0, 3) for job in range(4)})
    assert sorted(found) == [0, 1, 2]
    assert sum(found[2].values()) == 3


def test_a_job_that_has_its_share_stays():
    """A runs on node 1, though node 2 would fit better; B moves from 1 GPU to 4; C loses its GPUs."""
    running = {0: {1: 2}, 1: {0: 1}, 2: {0: 1}}
    view = round_at(1, many(3), NODES, place=[(0, running)], performance=Curved())
    held = {job: grant for job in range(3) if (grant := held_by(view, job))}
    assert held == {0: Grant(0, 2), 1: Grant(0, 1), 2: Grant(0, 1)}
    allocation, found = placed(view, {0: Grant(0, 2), 1: Grant(0, 4)}, held)
    assert found == {0: {1: 2}, 1: {0: 4}}
    assert set(allocation.changes) == {1, 2}


def test_a_share_that_finds_no_room_stays_where_it_runs():
    """A runs on 2 GPUs of node 0 and is granted 4; B stays on 3 of node 1, C on 2 of node 0. The only free place
    in one piece is A's own; four GPUs spread over nodes 0, 1 and 2 are not faster, as spreading is slow.
    """
    running = {0: {0: 2}, 1: {1: 3}, 2: {0: 2}}
    view = round_at(1, many(3), NODES, place=[(0, running)], performance=Unwieldy())
    held = {job: grant for job in range(3) if (grant := held_by(view, job))}
    _, found = placed(view, {0: Grant(0, 4), 1: Grant(0, 3), 2: Grant(0, 2)}, held)
    assert found == running


def test_gangs_over_several_types():
    """Five to six GPUs of 2 new and 4 old ones: five, the least. With two of them taken there is no room."""
    workload = Workload.of([JobSpec(0, 0.0, 5, 1e6, "any", 5, 6), JobSpec(1, 0.0, 2, 1e6, "any", 2, 2)])
    view = round_at(0, workload, MIXED, performance=Curved())
    allocation = view.allocation()
    assert place_over_types(view, allocation, 0)
    found = allocation.placement(0)
    assert found is not None
    assert sum(found.gpus.values()) == 5
    busy = round_at(1, workload, MIXED, place=[(0, {1: {1: 2}})], performance=Curved())
    full = busy.allocation(keep_running=True)
    assert not place_over_types(busy, full, 0)
    assert not full.changes
    assert held_by(busy, 1) == Grant(1, 2)
    mixed = round_at(1, workload, MIXED, place=[(0, {0: found.gpus})], performance=Curved())
    assert held_by(mixed, 0) is None
