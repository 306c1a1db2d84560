"""Ordered sets against Python's `set`."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envs.simulation.world.kernels import sort_ascending
from envs.simulation.world.ordered_set import (
    fill_by_node,
    insert,
    is_empty,
    list_members,
    lowest_bit,
    next_member,
    num_words,
    remove,
)

sizes = st.sampled_from([1, 2, 31, 32, 33, 64, 1000, 1024, 1025, 33_000])


@given(size=sizes, draws=st.lists(st.floats(0, 1, exclude_max=True), max_size=60), first=st.floats(0, 1))
def test_the_same_as_a_python_set_after_every_operation(size, draws, first):
    """Insert and remove members; `first` may be larger than the last possible member."""
    words, reference = np.zeros(num_words(size), np.int64), set()
    start = round(first * size)
    for draw in draws:
        member = int(draw * size)
        if member in reference:
            reference.discard(member)
            remove(words, size, member)
        else:
            reference.add(member)
            insert(words, size, member)
        assert is_empty(words) == (not reference)
        assert next_member(words, size, start) == min((m for m in reference if m >= start), default=-1)
    found = np.full(len(reference) + 3, -1, np.int64)
    assert list_members(words, size, found) == len(reference)
    assert found[: len(reference)].tolist() == sorted(reference)


@given(size=sizes, capacity=st.integers(0, 5))
def test_a_list_gets_the_first_members_that_fit(size, capacity):
    words = np.zeros(num_words(size), np.int64)
    members = sorted({0, size // 3, size // 2, size - 1})
    for member in members:
        insert(words, size, member)
    found = np.full(capacity, -1, np.int64)
    count = list_members(words, size, found)
    assert found[:count].tolist() == members[:capacity]


@given(word=st.integers(1, 2**32 - 1))
def test_the_lowest_bit(word):
    assert lowest_bit(word) == (word & -word).bit_length() - 1


def test_a_set_of_many_levels_is_small():
    """31,250 leaves, 977 words above them, 31, and the root."""
    assert num_words(1_000_000) == 31_250 + 977 + 31 + 1
    assert num_words(1) == num_words(32) == 1


def test_nodes_by_type_and_free_gpus():
    room = np.zeros((2, 5, num_words(3)), np.int64)
    fill_by_node(room, np.array([1, 0, 1]), np.array([4, 2, 4]))
    by_place = {(gpu_type, free): _members(room[gpu_type, free]) for gpu_type in range(2) for free in range(5)}
    assert {place: members for place, members in by_place.items() if members} == {(1, 4): [0, 2], (0, 2): [1]}


def _members(words: np.ndarray) -> list[int]:
    found = np.zeros(3, np.int64)
    members: list[int] = found[: list_members(words, 3, found)].tolist()
    return members


@given(values=st.lists(st.integers(-5, 1000), max_size=50), behind=st.lists(st.integers(), max_size=3))
def test_sorting_a_part_of_an_array(values, behind):
    behind = [value % 1000 for value in behind]
    array = np.array([*values, *behind], np.int64)
    sort_ascending(array, len(values))
    assert array.tolist() == [*sorted(values), *behind]
