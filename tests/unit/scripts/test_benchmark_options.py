"""The benchmark of the placement environment: it times what it says, and counts what is played."""

from collections.abc import Iterator

import pytest
from hydra import initialize_config_dir

from benchmarks import options
from benchmarks.report import Report
from benchmarks.suite import Suite
from murmuration.config.choices import CONF


@pytest.fixture(autouse=True)
def configs() -> Iterator[None]:
    """The configuration's folder, which tasks are composed from."""
    with initialize_config_dir(str(CONF), version_base=None):
        yield


def test_training_sampling_and_rounds_are_timed():
    """On clusters of four and eight nodes."""
    report = Report()
    options.measure_options(report, Suite(num_sizes=1, pairs=2, repeats=1, steps=4))
    report.check()
    assert {row.size for row in report.rows} == {"shared-16", "8/160"}
    found = {row.what: row.value for row in report.rows}
    for name, changes, network in options.LEAST:
        if name == "shared-16":
            case = f"{network}, {changes}"
            decisions = found[f"{case}: decisions in training"] / found[f"{case}: training episodes"]
            assert decisions > 30
            assert found[f"{case}: sampled decisions"] == pytest.approx(decisions * found[f"{case}: sampled episodes"])
            assert found[f"{case}: share of sampling"] > 0
    assert found["all decisions of a round, median"] > 0
    for network in options.MOST_MS_TOGETHER:
        assert found[f"round of nodes that act together, {network}, median"] > 0
    assert found["faster than the reference"] > 0
