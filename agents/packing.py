"""Compact storage of demonstrations: an absent job takes one bit, and so does every action of a mask."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

StepArrays = dict[str, npt.NDArray[Any]]
Bits = npt.NDArray[np.uint8]


class Packed(Protocol):
    """A compressed array."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...

    def unpacked(self) -> npt.NDArray[Any]:
        """Return a fresh array, equal to the packed one."""
        ...


@dataclass(frozen=True, slots=True)
class PackedFlags:
    """An array of zeros and ones, of any type, stored as bits."""

    bits: Bits
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> "PackedFlags":
        """Pack an array of zeros and ones."""
        return cls(np.packbits(array.ravel() != 0), array.shape, array.dtype)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.bits.nbytes

    def unpacked(self) -> npt.NDArray[Any]:
        """Return a fresh array, equal to the packed one."""
        flags = np.unpackbits(self.bits, count=math.prod(self.shape))
        return flags.astype(self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """An array whose rows (along the last axis) are often all zero: slots and queue rows without a job."""

    present: PackedFlags  # bool[...]: which rows are stored
    rows: npt.NDArray[Any]

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> "PackedRows":
        """Pack any array of at least two axes."""
        present = np.asarray(array.any(-1))
        return cls(PackedFlags.of(present), array[present])

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.present.nbytes + self.rows.nbytes

    def unpacked(self) -> npt.NDArray[Any]:
        """Return a fresh array, equal to the packed one."""
        present = self.present.unpacked()
        array = np.zeros((*present.shape, self.rows.shape[-1]), self.rows.dtype)
        array[present] = self.rows
        return array


@dataclass(frozen=True, slots=True)
class PackedStep:
    """Observations and labels of one step of a batch of episodes."""

    arrays: Mapping[str, Packed]
    labels: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def nbytes(self) -> int:
        """Size of its arrays in bytes."""
        return self.labels.nbytes + sum(array.nbytes for array in self.arrays.values())

    def unpacked(self) -> StepArrays:
        """Return fresh arrays by name, equal to the packed ones."""
        arrays = {name: array.unpacked() for name, array in self.arrays.items()}
        return {**arrays, "labels": self.labels.astype(np.int64)}


def pack_step(step: StepArrays) -> PackedStep:
    """Pack a copy of a step: the observation's arrays by name, its `mask` included, and `labels` int64[B, nodes]."""
    arrays: dict[str, Packed] = {
        name: PackedFlags.of(array) if name == "mask" else PackedRows.of(array)
        for name, array in step.items()
        if name != "labels"
    }
    return PackedStep(arrays, step["labels"].astype(np.int32))
