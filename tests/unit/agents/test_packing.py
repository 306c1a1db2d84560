"""Packed demonstrations: equal when unpacked, smaller while they wait."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.packing import PackedFlags, PackedRows, pack_step
from baselines.srtf import Srtf
from tests.unit.agents.test_imitation import gathered
from tests.unit.agents.worlds import small_world

SHAPES = arrays.array_shapes(min_dims=2, max_dims=4, max_side=5)


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)


@given(arrays.arrays(np.int8, SHAPES, elements=st.integers(0, 1)))
@settings(max_examples=50, deadline=None)
def test_flags_come_back(array):
    packed = PackedFlags.of(array)
    assert same(packed.unpacked(), array)
    assert packed.nbytes == -(-array.size // 8)


@given(arrays.arrays(np.float32, SHAPES, elements=st.sampled_from([0.0, 0.0, 0.5, -3.25])), st.data())
@settings(max_examples=50, deadline=None)
def test_rows_come_back_and_empty_ones_take_a_bit(array, data):
    empty = data.draw(arrays.arrays(bool, array.shape[:-1]))
    array[empty] = 0.0
    packed = PackedRows.of(array)
    assert same(packed.unpacked(), array)
    full = int(array.any(-1).sum())
    assert packed.nbytes == full * array.shape[-1] * 4 + -(-empty.size // 8)


def test_a_packed_array_is_a_copy():
    array = np.ones((2, 3), np.float32)
    packed = PackedRows.of(array)
    array[:] = 7.0
    assert (packed.unpacked() == 1.0).all()
    packed.unpacked()[:] = 9.0
    assert (packed.unpacked() == 1.0).all()


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_demonstrations_come_back_and_take_less_than_half(share):
    _, chunks = gathered(small_world(), Srtf, share=share)
    steps = [pack_step(chunk) for chunk in chunks]
    for chunk, step in zip(chunks, steps, strict=True):
        unpacked = step.unpacked()
        assert set(unpacked) == set(chunk)
        assert len(step) == len(chunk["labels"])
        assert all(same(unpacked[name], array) for name, array in chunk.items())
    plain = sum(array.nbytes for chunk in chunks for array in chunk.values())
    assert sum(step.nbytes for step in steps) < 0.5 * plain
