"""Fair Tree and the classic formula, worked by hand."""

import pytest

from baselines.slurm.fair_share import FairShare
from baselines.slurm.settings import Association, SlurmSettings

A40_B60 = (Association("a", shares=40), Association("b", shares=60))
LEVEL = (Association("a"), Association("b"))
USERS = [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]


def factors(associations, usage, **settings):
    """The factors of `USERS`."""
    fair = FairShare(SlurmSettings(associations=associations, half_life=100.0, **settings))
    numbers = [fair.find(*user) for user in USERS]
    fair.use(0.0, list(zip(numbers, usage, strict=True)))
    return fair.rank()


@pytest.mark.parametrize(
    ("associations", "usage", "expected"),
    [
        # b: 0.6 of shares, a third of usage: 1.8; a: 0.4 over two thirds: 0.6. So all of b come before all of a.
        (A40_B60, [10, 30, 20, 0], [0.5, 0.25, 0.75, 1.0]),
        # Users that are tied, here without usage, have one rank, and the next one is as if they had two.
        (A40_B60, [10, 30, 0, 0], [0.5, 0.25, 1.0, 1.0]),
        # a and b are tied, so their users are sorted together: a1 2, b1 and b2 1, a2 0.67.
        (LEVEL, [5, 15, 10, 10], [1.0, 0.25, 0.75, 0.75]),
        # Without shares there is no claim, with usage or not.
        ((Association("a", shares=0), Association("b")), [0, 0, 20, 10], [0.5, 0.5, 0.75, 1.0]),
    ],
)
def test_fair_tree(associations, usage, expected):
    assert factors(associations, usage) == expected


def test_the_classic_formula_passes_usage_down():
    """a1 has a quarter of the shares and 0.375 of usage; half of a's other usage counts as well: 0.4375."""
    found = factors(LEVEL, [30, 10, 40, 0], flags=frozenset({"NO_FAIR_TREE"}))
    assert found == pytest.approx([2**-1.75, 2**-1.25, 2**-2.0, 2**-1.0])


def test_usage_decays_by_half_in_each_half_life_and_is_reset():
    fair = FairShare(SlurmSettings(half_life=100.0, usage_reset=1000.0))
    one, two = fair.find("a", "one"), fair.find("a", "two")
    fair.use(0.0, [(one, 80.0)])
    fair.use(200.0, [(two, 30.0)])
    assert [fair.members[each].usage for each in (one, two)] == [20.0, 30.0]
    fair.use(1001.0, [(one, 1.0)])
    assert [fair.members[each].usage for each in (one, two)] == [1.0, 0.0]


def test_accounts_in_a_circle_end():
    circle = (Association("a", parent="b"), Association("b", parent="a"))
    assert len(factors(circle, [1, 2, 3, 4])) == 4
