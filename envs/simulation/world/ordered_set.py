"""Ordered sets of small integers: insert, remove and find the next member in a few machine words.

A set over 0 ... size - 1 is a tree of bit maps in one int64 array: first the leaves, 32 members per word, then level by
level one bit for each non-empty word below, up to a single word. `num_words` is the length of the array.
"""

from typing import Any

from numba.cpython.unsafe.numbers import trailing_zeros

from envs.simulation.compiled.jit import COMPILES, kernel, leaf
from envs.types import IntArray

count_trailing_zeros: Any = trailing_zeros  # untyped
BITS = 5  # log2 of the number of members of a word


def num_words(size: int) -> int:
    """Number of words of a set over `size` integers, over all levels."""
    words = level = max((size + 31) // 32, 1)
    while level > 1:
        level = (level + 31) // 32
        words += level
    return words


@leaf
def lowest_bit(word: int) -> int:
    """Index of the lowest set bit in a word of 32 bits that is not 0: one instruction where kernels are compiled."""
    if COMPILES:
        return int(count_trailing_zeros(word))
    bit = word & -word
    index = int(bit & 0xFFFF == 0) << 4
    index += int(bit & 0xFF00FF == 0) << 3
    index += int(bit & 0xF0F0F0F == 0) << 2
    index += int(bit & 0x33333333 == 0) << 1
    return index + int(bit & 0x55555555 == 0)


@leaf
def insert(words: IntArray, size: int, member: int) -> None:
    """Add a member that is not in the set."""
    offset = 0
    level = (size + 31) >> BITS
    while True:
        place = offset + (member >> BITS)
        before = words[place]
        words[place] = before | (1 << (member & 31))
        if before != 0 or level <= 1:
            break
        offset += level
        level = (level + 31) >> BITS
        member >>= BITS


@leaf
def remove(words: IntArray, size: int, member: int) -> None:
    """Remove a member that is in the set."""
    offset = 0
    level = (size + 31) >> BITS
    while True:
        place = offset + (member >> BITS)
        after = words[place] & ~(1 << (member & 31))
        words[place] = after
        if after != 0 or level <= 1:
            break
        offset += level
        level = (level + 31) >> BITS
        member >>= BITS


@leaf
def next_member(words: IntArray, size: int, first: int) -> int:
    """The smallest member that is at least `first`; -1 if there is none."""
    offset = 0
    level = (size + 31) >> BITS
    depth = 0
    while True:  # go up until a word has a member that is at least `first`
        place = first >> BITS
        if place < level:
            rest = words[offset + place] >> (first & 31)
            if rest != 0:
                first += lowest_bit(rest)
                break
        if level <= 1:
            return -1
        first = place + 1
        offset += level
        level = (level + 31) >> BITS
        depth += 1
    while depth > 0:  # go down to the first member below
        depth -= 1
        level = ((size - 1) >> (BITS * (depth + 1))) + 1
        offset -= level
        first = (first << BITS) + lowest_bit(words[offset + first])
    return first


@leaf
def is_empty(words: IntArray) -> bool:
    """Return whether a set has no member."""
    return bool(words[len(words) - 1] == 0)


@kernel
def fill_by_node(room: IntArray, gpu_types: IntArray, free: IntArray) -> None:
    """Insert all nodes into the sets of their GPU type and free GPUs: `room` [num_gpu_types, most free + 1, words]."""
    for node in range(len(gpu_types)):
        insert(room[gpu_types[node], free[node]], len(gpu_types), node)


@kernel
def list_members(words: IntArray, size: int, out: IntArray) -> int:
    """Write the first members into `out`, ascending, as many as fit; return the number."""
    count = 0
    member = next_member(words, size, 0)
    while member >= 0 and count < len(out):
        out[count] = member
        count += 1
        member = next_member(words, size, member + 1)
    return count
