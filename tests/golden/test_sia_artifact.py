"""How Sia's simulator differs from Pollux's, worked by hand on tables of two placements."""

import numpy as np
import pandas as pd
import pytest

from baselines.gavel.shares import Sharing, maximise_total_throughput
from envs.types import Configuration
from papers.sia.experiment import PUBLISHED, SharingInSteps, means_of_families
from papers.sia.performance import SiaTables


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """BERT in two epochs of 10 and 20 steps of 12 samples, without noise, so that a larger batch gains nothing."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "bert").mkdir()
    for batch in (12, 24):
        (folder / "bert" / f"validation-{batch}.csv").write_text("progress,grad_sqr,grad_var\n10,1,0\n30,1,0\n")
    for gpu_type, largest in (("aws", 12), ("rtx", 6)):
        rows = [f"{name},{size},{seconds},0.1" for name, seconds in (("1", 1.0), ("2", 0.5)) for size in (4, largest)]
        text = "\n".join(["placement,local_bsz,step_time,sync_time", *rows])
        (folder / "bert" / f"placements-{gpu_type}.csv").write_text(text)
        (folder / "bert" / f"scalability-{gpu_type}.csv").write_text("num_nodes,num_replicas,local_bsz\n")
    return folder


@pytest.mark.parametrize(
    ("gpu_type", "gpus", "seconds"),
    [
        ("aws", 2, 0.5),  # 12 samples each
        ("aws", 1, 1.9),  # twice 12 samples, with one transfer
        ("rtx", 2, 0.9),  # a GPU takes 6 samples at once: two passes
        ("rtx", 1, 3.7),  # four passes
    ],
)
def test_a_fixed_batch_has_steps_per_second(traces, gpu_type, gpus, seconds):
    """30 steps of 24 samples, each 1.2 times as long as it was measured."""
    tables = SiaTables(traces)
    assert tables.work("bert 24") == pytest.approx(30)
    assert tables.throughput("bert 24", Configuration(gpu_type, gpus)) == pytest.approx(1 / (1.2 * seconds))


def test_the_best_batch_size_counts_useful_samples(traces):
    """Two GPUs at the smallest batch size: 30 steps of 12 samples, a step in 0.5 s; a larger batch gains nothing."""
    tables = SiaTables(traces)
    assert tables.work("bert adapted") == pytest.approx(360)
    assert tables.throughput("bert adapted", Configuration("aws", 2)) == pytest.approx(12 / (1.2 * 0.5))


@pytest.mark.parametrize(("sharing", "shares"), [(SharingInSteps, [0, 1]), (Sharing, [1, 0])])
def test_short_steps_go_first(sharing, shares):
    """A job with 1 step/s on the first type and 0.1 on the second, and one with 10 on both, that only fit in turns."""
    found = maximise_total_throughput(sharing(np.array([[1.0, 0.1], [10.0, 10.0]]), np.array([4, 4]), np.array([4, 0])))
    assert found.shares[:, 0].tolist() == pytest.approx(shares, abs=1e-6)


def test_means_are_beside_what_is_published():
    published = PUBLISHED["saturn", "Gavel, steps/s"]
    rows = [("Sia", 1.0), ("Sia", 2.0), ("Gavel, steps/s", published), ("Gavel, steps/s", 1.2 * published)]
    table = pd.DataFrame([{"family": "saturn", "scheduler": name, "JCT (h)": jct} for name, jct in rows])
    found = means_of_families(table.assign(**{"makespan (h)": 1.0}))
    assert found["off (%)"].tolist()[1] == pytest.approx(10)
    assert found["Sia below (%)"].tolist() == pytest.approx([0, 100 * (1 - 1.5 / (1.1 * published))])
