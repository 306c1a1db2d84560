"""Categories: numbers of workers per job, counted, ranked and drawn without listing them.

A category is a composition of the workers over the jobs, each part within the job's range. Categories are numbered from
0 in lexicographic order of the parts. There are too many to list (Python's integers hold the count), so a category is
computed from its number by counting the compositions of the remaining workers over the remaining jobs.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from envs.simulation.compiled.jit import jit
from envs.types import IntArray, MurmurationError

MOST_LISTED = 2_000_000  # most categories that `Categories.all` lists
MOST_COMPILED = 2**62  # categories up to which they are computed from their numbers in compiled code


class Categories:
    """All compositions of `total` workers into parts between `least` and `most`, in lexicographic order.

    Args:
        least: int64[num_jobs], smallest part of each job, at least 0.
        most: int64[num_jobs], largest part.
        total: number of workers.
    """

    def __init__(self, least: npt.ArrayLike, most: npt.ArrayLike, total: int) -> None:
        self.least: list[int] = np.asarray(least, np.int64).tolist()
        self.most: list[int] = np.asarray(most, np.int64).tolist()
        self.total = int(total)
        if len(self.least) != len(self.most) or not self.least:
            raise MurmurationError(
                f"categories: least has {len(self.least)} jobs and most {len(self.most)}; give one range for each job"
            )

    @cached_property
    def _ways(self) -> Sequence[Sequence[int]]:
        """_ways[i][r]: ways to distribute r workers beyond the least over the jobs from i on; 0 beyond a row's end."""
        row = [1]
        rows = [row]
        for least, most in zip(reversed(self.least), reversed(self.most), strict=True):
            span = most - least
            sums = [0, *accumulate(row)]  # sums[r]: ways to distribute fewer than r
            longest = min(len(row) + span, self._beyond + 1)
            row = [sums[min(r + 1, len(row))] - sums[max(r - span, 0)] for r in range(longest)]
            rows.append(row)
        return rows[::-1]

    @cached_property
    def _beyond(self) -> int:
        """Workers beyond the sum of the smallest parts."""
        return self.total - sum(self.least)

    @property
    def count(self) -> int:
        """Number of categories; C(K - 1, S - 1) for S jobs on K workers where every part from 1 up is allowed."""
        return self._way(0, self._beyond)

    def unrank(self, number: int) -> IntArray:
        """The category with a number: int64[num_jobs].

        Raises:
            MurmurationError: no category has this number.
        """
        if not 0 <= number < self.count:
            raise MurmurationError(f"category {number}: does not exist; there are {self.count}, numbered from 0")
        parts: list[int] = []
        left = self._beyond
        for job, least in enumerate(self.least):
            row, part = self._ways[job + 1], 0  # `_way` written out: this loop takes a tenth of a decision
            while number >= (ways := row[left - part] if 0 <= left - part < len(row) else 0):
                number -= ways
                part += 1
            parts.append(least + part)
            left -= part
        return np.array(parts, np.int64)

    def rank(self, sizes: npt.ArrayLike) -> int:
        """The number of a category.

        Raises:
            MurmurationError: the sizes are not a category.
        """
        parts: list[int] = np.asarray(sizes, np.int64).tolist()
        within = all(low <= part <= high for low, part, high in zip(self.least, parts, self.most, strict=True))
        if not within or sum(parts) != self.total:
            raise MurmurationError(
                f"category {parts}: does not exist; parts must be in their ranges and sum to {self.total}"
            )
        number, left = 0, self._beyond
        for job, (part, least) in enumerate(zip(parts, self.least, strict=True)):
            number += sum(self._way(job + 1, left - less) for less in range(part - least))
            left -= part - least
        return number

    def draw(self, rng: np.random.Generator, samples: int, skip: float = 0.0) -> IntArray:
        """Draw different categories, all allowed ones equally likely: int64[num_drawn, num_jobs], ordered by number.

        Args:
            rng: random generator.
            samples: number of categories; all are returned if there are no more.
            skip: share of the categories, from number 0 on, that is left out; less if too few would remain.
        """
        first = min(int(skip * self.count), max(self.count - samples, 0))
        allowed = self.count - first
        if allowed <= samples:
            numbers = set(range(first, self.count))
        else:
            numbers = set()
            while len(numbers) < samples:  # a draw repeats with probability len(numbers) / allowed
                numbers.update(first + number for number in _draws_below(rng, allowed, samples - len(numbers)))
        return self.unrank_all(sorted(numbers))

    def unrank_all(self, numbers: Sequence[int]) -> IntArray:
        """The categories with these numbers, which must exist: int64[len(numbers), num_jobs]; see `unrank`."""
        if not numbers or numbers[-1] >= MOST_COMPILED or self.count >= MOST_COMPILED:
            return np.array([self.unrank(number) for number in numbers], np.int64).reshape(-1, len(self.least))
        ways = np.zeros((len(self._ways), self._beyond + 1), np.int64)
        for job, row in enumerate(self._ways):
            ways[job, : len(row)] = row
        return self.least + parts_beyond(ways, np.array(numbers, np.int64))

    def all(self) -> IntArray:
        """Every category: int64[count, num_jobs].

        Raises:
            MurmurationError: there are too many to list.
        """
        if self.count > MOST_LISTED:
            raise MurmurationError(
                f"categories: {self.count} are too many to list; draw samples, or list at most {MOST_LISTED}"
            )
        rows = np.zeros((1 if self.count else 0, 0), np.int64)
        left = np.full(len(rows), self._beyond)
        for job, (least, most) in enumerate(zip(self.least, self.most, strict=True)):
            able = np.array([self._way(job + 1, rest) > 0 for rest in range(max(self._beyond, 0) + 1)])
            rest = left[:, None] - np.arange(most - least + 1)
            row, part = np.nonzero((rest >= 0) & able[np.maximum(rest, 0)])
            rows = np.concatenate([rows[row], least + part[:, None]], axis=1)
            left = rest[row, part]
        return rows

    def _way(self, job: int, beyond: int) -> int:
        row = self._ways[job]
        return row[beyond] if 0 <= beyond < len(row) else 0


@jit
def parts_beyond(ways: IntArray, numbers: IntArray) -> IntArray:
    """int64[len(numbers), num_jobs]: the parts of categories beyond the least ones.

    Reference implementation: `Categories.unrank`.

    Args:
        ways: int64[num_jobs + 1, workers + 1], ways to distribute so many workers over the jobs from each one on.
        numbers: int64[n], the numbers of categories that distribute all the workers.
    """
    num_jobs, workers = len(ways) - 1, ways.shape[1] - 1
    parts = np.zeros((len(numbers), num_jobs), np.int64)
    for row in range(len(numbers)):
        number, left = numbers[row], workers
        for job in range(num_jobs):
            while left > 0 and number >= ways[job + 1, left]:
                number -= ways[job + 1, left]
                parts[row, job] += 1
                left -= 1
    return parts


def _draws_below(rng: np.random.Generator, bound: int, draws: int) -> list[int]:
    """Draw uniform integers below a bound of any size: random bits, of which those that are too large are left out.

    The generator's words are taken at once, as many as for one `rng.bytes` after the other.
    """
    bits = bound.bit_length()
    length, spare = -(-bits // 8), -bits % 8
    words = -(-length // 4) * 4  # the generator gives whole words of 4 bytes
    drawn = rng.bytes(words * draws)
    numbers = (
        int.from_bytes(drawn[begin : begin + length], "little") >> spare for begin in range(0, len(drawn), words)
    )
    return [number for number in numbers if number < bound]
