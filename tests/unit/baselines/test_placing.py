"""Where gangs go."""

from hypothesis import given
from hypothesis import strategies as st

from baselines.placing import first_fit, pack, types_by_speed
from envs.types import ClusterSpec, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.conformance.worlds import Curved
from tests.golden.playground import TwoSpeeds, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import round_at


def packed(view, job=0, size=None, before=()):
    """Where `pack` puts a job on a cluster on which other jobs have been placed by hand; None if nowhere."""
    wish = view.allocation()
    for other, gpus in before:
        wish.place(other, gpus)
    found = pack(view, wish, job, size)
    assert found is (wish.placement(job) is not None)
    return dict(wish.placement(job).gpus) if found else None


def test_types_fastest_first():
    view = round_at(0, jobs((0, 2, 1)), fast_and_slow(), performance=TwoSpeeds())
    assert types_by_speed(view, 0, 2) == [1, 0]


def test_types_of_equal_speed_in_the_clusters_order():
    view = round_at(0, jobs((0, 2, 1)), fast_and_slow())
    assert types_by_speed(view, 0, 2) == [0, 1]


def test_types_too_small_are_left_out():
    """4 GPUs of each type: a job of 5 runs consolidated on neither."""
    view = round_at(0, jobs((0, 5, 1)), fast_and_slow())
    assert types_by_speed(view, 0, 4) == [0, 1]
    assert types_by_speed(view, 0, 5) == []


def test_types_on_which_a_model_does_not_run_are_left_out():
    cluster = ClusterSpec((NodeSpec("small", 4), NodeSpec("old", 4)))
    large = Workload.of([JobSpec(0, 0.0, 2, 1.0, "large")])
    view = round_at(0, large, cluster, performance=Curved())
    assert types_by_speed(view, 0, 2) == [1]
    assert packed(view) == {1: 2}


def test_best_fit_on_the_fastest_type_with_room():
    view = round_at(0, jobs((0, 2, 1), (0, 3, 1)), fast_and_slow(), performance=TwoSpeeds())
    assert packed(view) == {1: 2}
    assert packed(view, before=[(1, {1: 3})]) == {0: 2}  # rather than wait


def test_no_room_changes_nothing():
    view = round_at(0, jobs((0, 4, 1), (0, 1, 1), (0, 1, 1)), two_nodes())
    assert packed(view, before=[(1, {0: 1}), (2, {1: 1})]) is None


def test_a_size_may_be_given():
    view = round_at(0, jobs((0, 4, 1), elastic=(1, 8)), two_nodes())
    assert packed(view, size=6) == {0: 4, 1: 2}


def test_a_gang_over_types_only_if_no_type_is_large_enough():
    """5 GPUs exceed both types of 4; so does no job of 4, which waits where both have only 3 left."""
    view = round_at(0, jobs((0, 5, 1), (0, 4, 1), (0, 1, 1), (0, 1, 1)), fast_and_slow(), performance=TwoSpeeds())
    assert packed(view, 0) == {1: 4, 0: 1}
    assert packed(view, 1, before=[(2, {0: 1}), (3, {1: 1})]) is None


def test_a_gang_over_types_never_takes_gpus_that_are_too_small_for_the_model():
    cluster = ClusterSpec((NodeSpec("small", 4), NodeSpec("old", 4), NodeSpec("new", 4)))
    large = Workload.of([JobSpec(0, 0.0, 7, 1.0, "large")])
    assert packed(round_at(0, large, cluster, performance=Curved())) == {2: 4, 1: 3}


def test_first_fit_takes_the_first_node_with_room():
    view = round_at(0, jobs((0, 2, 1), (0, 3, 1)), two_nodes())
    wish = view.allocation()
    assert first_fit(wish, 2, 0) == {0: 2}
    wish.place(1, {0: 3})
    assert first_fit(wish, 1, 0) == {0: 1}
    assert first_fit(wish, 2, 0) == {1: 2}
    assert first_fit(wish, 8, 0) == {}


@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    taken=st.lists(st.integers(0, 8), min_size=5, max_size=5),
    want=st.integers(1, 30),
)
def test_first_fit_gives_what_is_free_and_all_of_it(sizes, taken, want):
    """The GPUs found are free, add up, and a larger job gets nodes whole but for one."""
    cluster = ClusterSpec(tuple(NodeSpec("plain", size) for size in sizes))
    view = round_at(0, jobs((0, 1, 1)), cluster)
    wish = view.allocation()
    wish.free_gpus -= [min(taken[i], size) for i, size in enumerate(sizes)]
    found = first_fit(wish, want, 0)
    assert all(1 <= gpus <= wish.free_gpus[node] for node, gpus in found.items())
    assert sum(found.values()) in (0, want)
    assert sum(gpus < sizes[node] for node, gpus in found.items()) <= 1
    if want <= max(wish.free_gpus):
        assert len(found) <= 1 or want > max(sizes)
        assert found


def test_placements_are_those_of_the_builder():
    """What is found can be placed: the builder accepts it."""
    view = round_at(0, jobs((0, 6, 1)), two_nodes())
    wish = view.allocation()
    wish.place(0, Placement(first_fit(wish, 6, 0)))
    assert wish.free_gpus.tolist() == [0, 2]


def test_no_other_types_for_a_job_that_one_type_could_hold():
    """A caller that has no type left to offer does not get a mixture instead: one type is large enough, so the job
    waits.
    """
    view = round_at(0, jobs((0, 4, 1)), fast_and_slow())
    wish = view.allocation()
    assert not pack(view, wish, 0, 4, ())
    assert wish.placement(0) is None
