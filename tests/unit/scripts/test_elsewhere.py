"""What a table of worlds adds up to, worked by hand, and that finished worlds are not played again."""

import json

import pytest

from envs.evaluation.statistics import Estimate
from experiments.elsewhere import add_up, best_published, compare_elsewhere

ROWS = {
    "one": {
        "policy": Estimate(0.8, 0.7, 0.9),
        "starling": Estimate(1.0, 1.0, 1.0),
        "srtf": Estimate(1.6, 1.5, 1.7),
        "afs": Estimate(1.2, 1.1, 1.3),
    },
    "other": {"policy": Estimate(1.8, 1.7, 1.9), "starling": Estimate(1.0, 1.0, 1.0), "srtf": Estimate(1.5, 1.4, 1.6)},
    "unplayed": {"starling": Estimate(1.0, 1.0, 1.0), "srtf": Estimate(1.5, 1.4, 1.6)},
}


def test_totals_are_over_the_worlds_that_a_policy_played():
    assert best_published(ROWS["one"], ["srtf", "afs"]) == "afs"
    assert add_up("policy", ROWS, ["srtf", "afs"], "starling") == {
        "policy": "policy",
        "worlds": 2,
        "geometric mean": pytest.approx(1.2),  # of 0.8 and 1.8
        "worst": 1.8,
        "of the best published": pytest.approx((0.8 / 1.2 * 1.8 / 1.5) ** 0.5),
        "ahead of all published": 1,
        "surely ahead of starling": 1,
        "behind SRTF": 1,
    }


def test_worlds_of_an_earlier_run_are_not_played_again(tmp_path):
    """These options name no cluster that there is; only what the folder has can be shown."""
    before, now = tmp_path / "before", tmp_path / "now"
    before.mkdir()
    (before / "mine.json").write_text(json.dumps({"starling": [1.0, 1.0, 1.0], "srtf": [1.5, 1.25, 1.75]}))
    found = compare_elsewhere(
        "", now, {}, {"mine": ["cluster=none"]}, (0, 0), ["srtf"], [], "starling", continues=str(before)
    )
    (_, table), _ = found.tables
    assert table.to_dict("records") == [{"world": "mine", "best published": "srtf 1.5 [1.25, 1.75]"}]
