"""The public traces themselves: every row is accounted for, and known figures are reproduced."""

import pandas as pd
import pytest

from envs.performance import default_model
from envs.workloads.mix import known_as
from envs.workloads.readers import ItpTrace, MuriTrace, PhillyTrace, RubickTrace


def test_philly_keeps_all_but_its_63_duplicates(real_data):
    frame, report = PhillyTrace().read(real_data("traces/philly/philly_jobs.csv.gz"), strict=True)
    assert (report.rows, report.kept) == (73_313, 73_250)
    assert report.skipped == {"exact duplicates of an earlier row": 63}
    assert any("not in order" in note for note in report.notes)
    assert frame["tenant"].nunique() == 13
    assert (frame["num_gpus"] == 1).mean() == pytest.approx(0.938, abs=0.001)
    assert frame["duration"].max() == 4_628_226.0
    assert frame["submit_time"].iloc[0] == 10 * 3600 + 30 * 60 + 41  # 2017-09-04 10:30:41


def test_itp_keeps_every_row(real_data):
    frame, report = ItpTrace().read(real_data("traces/microsoft_itp/itp_jobs.csv.gz"), strict=True)
    assert (report.rows, report.kept, report.skipped) == (53_293, 53_293, {})
    assert frame["tenant"].nunique() == 8
    assert frame["duration"].min() >= 600
    assert (frame["num_gpus"].min(), frame["num_gpus"].max()) == (1, 64)


def test_itp_reads_one_clusters_file_like_the_joined_one(real_data, tmp_path):
    """cluster02 of the joined file, written as the publication has it: without a column cluster."""
    joined = real_data("traces/microsoft_itp/itp_jobs.csv.gz")
    everything = pd.read_csv(joined)
    alone = tmp_path / "cluster02.csv"
    everything[everything["cluster"] == "cluster02"].drop(columns="cluster").to_csv(alone, index=False)
    whole, _ = ItpTrace(clusters=["cluster02"]).read(joined, strict=True)
    part, _ = ItpTrace().read(alone, strict=True)
    assert part[["duration", "num_gpus", "tenant"]].equals(whole[["duration", "num_gpus", "tenant"]])
    shift = whole["submit_time"] - part["submit_time"]
    assert shift.nunique() == 1  # t = 0 is the first submission of all clusters that are read


@pytest.mark.parametrize(
    ("trace", "rows"), [("trace1", 1494), ("trace2", 5755), ("trace3", 992), ("cluster_trace", 400)]
)
def test_muri_is_in_seconds_and_its_models_are_known(real_data, trace, rows):
    reader = MuriTrace(trace)
    frame, report = reader.read(real_data(reader.location), strict=True)
    assert (report.rows, report.kept) == (rows, rows)
    assert frame["submit_time"].iloc[0] == 0.0
    assert frame["submit_time"].iloc[-1] < 130 * 86400
    zoo = default_model()
    assert all(known_as(model, reader.name, zoo) for model in frame["model"].unique())


@pytest.mark.parametrize("variant", ["base", "bp", "mt"])
def test_rubick_has_406_jobs_each_with_a_plan_of_its_size(real_data, variant):
    reader = RubickTrace(variant)
    frame, report = reader.read(real_data(reader.location), strict=True)
    assert (report.rows, report.kept) == (406, 406)
    assert [plan.num_gpus for plan in frame["plan"]] == frame["num_gpus"].tolist()
    assert frame["guaranteed"].sum() == (194 if variant == "mt" else 0)
    assert frame["submit_time"].iloc[-1] == 47_550.0
