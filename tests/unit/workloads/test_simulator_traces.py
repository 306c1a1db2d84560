"""The inputs of other simulators: Gavel's traces, Tiresias' job files, Muri's service times."""

import pytest

from envs.performance import IdealModel
from envs.types import TraceError
from envs.workloads import TraceSource
from envs.workloads.readers import GavelTrace, MuriTrace, TiresiasTrace
from envs.workloads.readers.gavel import batch_size

GAVEL = "{model}\tpython3 x\tdir\t-n\t1\t{steps}\t{gpus}\t{weight}\t{slo}\t{time}\n"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time\n"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def row(model="LM (batch size 20)", steps="100", gpus="2", weight="1", slo="-1.000000", time="0"):
    """One line of a Gavel trace."""
    return GAVEL.format(model=model, steps=steps, gpus=gpus, weight=weight, slo=slo, time=time)


def test_gavel_by_hand(write):
    path = write("g.trace", row() + row(model="A3C", steps="7", gpus="1", time="12.5"))
    frame, report = GavelTrace().read(path)
    assert frame["submit_time"].tolist() == [0.0, 12.5]
    assert frame["work"].tolist() == [100 * 20 * 2, 7]
    assert frame["num_gpus"].tolist() == [2, 1]
    assert frame["model"].tolist() == ["LM (batch size 20)", "A3C"]
    assert frame["duration"].isna().all()
    assert (report.rows, report.kept) == (2, 2)
    assert not any("SLO" in note for note in report.notes)


def test_the_notes_of_gavel_state_what_is_ignored(write):
    path = write("g.trace", row() + row(weight="2") + row(slo="1.2"))
    _, report = GavelTrace().read(path)
    assert "2 jobs have a priority weight or an SLO" in " ".join(report.notes)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (row(steps="many"), "total_steps"),
        (row(steps="-3"), "total_steps"),
        (row(gpus="0"), "scale_factor"),
        (row(gpus="1.5"), "scale_factor"),
        (row(time="soon"), "arrival_time"),
        (row(time="-1"), "arrival_time"),
        (row(model=" "), "job_type"),
        (row(model=f"LM (batch size {'9' * 400})"), "job_type"),
        (row(model=f"LM (batch size {'9' * 5000})"), "job_type"),
        (row(model="LM (batch size 0)"), "job_type"),
        (row(steps="9" * 400), "total_steps"),
        ("A3C\tpython3\n", "job_type"),
        (row(weight="heavy"), "priority_weight"),
    ],
)
def test_gavel_counts_malformed_rows_or_raises(write, line, field):
    path = write("g.trace", row() + line)
    frame, report = GavelTrace().read(path)
    assert len(frame) == 1
    assert [bad.field for bad in report.examples] == [field]
    with pytest.raises(TraceError, match=rf"row 2.*{field}"):
        GavelTrace().read(path, strict=True)


def test_gavel_skips_jobs_without_steps(write):
    _, report = GavelTrace().read(write("g.trace", row() + row(steps="0")))
    assert report.skipped == {"no steps to run": 1}


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_gavel_trace(write, text):
    with pytest.raises(TraceError, match="is empty; a gavel trace has one row of 10 tab-separated fields"):
        GavelTrace().read(write("g.trace", text))


def test_a_gavel_trace_that_is_not_text(tmp_path):
    path = tmp_path / "g.trace"
    path.write_bytes(b"\xff\x00\x01")
    with pytest.raises(TraceError, match="cannot be read as text"):
        GavelTrace().read(path)


SHORT = "{model}\tpython3 x\t-n\t1\t{steps}\t{time}\t{gpus}\n"


def short(model="LM (batch size 20)", steps="100", gpus="2", time="0"):
    """One line of a Gavel trace of seven fields, as those that it derived from Philly."""
    return SHORT.format(model=model, steps=steps, gpus=gpus, time=time)


def test_gavel_with_seven_columns_by_hand(write):
    path = write("g.trace", short(time="12.5") + short(model="A3C", steps="7", gpus="1"))
    frame, report = GavelTrace().read(path, strict=True)
    assert frame["submit_time"].tolist() == [0.0, 12.5]
    assert frame["work"].tolist() == [7, 100 * 20 * 2]
    assert frame["num_gpus"].tolist() == [1, 2]
    assert report.notes[0] == "work is steps times batch size times GPUs; the trace has no durations"


@pytest.mark.parametrize(
    ("text", "fields"), [(short() + row(), 7), (row() + short(), 10)], ids=["seven first", "ten first"]
)
def test_the_first_row_of_gavel_decides_the_number_of_columns(write, text, fields):
    frame, report = GavelTrace().read(write("g.trace", text))
    assert len(frame) == 1
    assert report.bad == {f"job_type must be in a row of {fields} tab-separated fields": 1}


def test_gavel_with_seven_columns_checks_its_fields(write):
    _, report = GavelTrace().read(write("g.trace", short() + short(gpus="0") + short(time="soon")))
    assert sorted(bad.field for bad in report.examples) == ["arrival_time", "scale_factor"]


def test_batch_sizes():
    assert [batch_size(name) for name in ("LM (batch size 20)", "A3C", "X (batch size 8) y")] == [20, 1, 1]


def test_gavel_as_a_workload(write, cluster):
    """Work comes from the trace; the error for a model without figures names the row."""
    path = write("g.trace", row(model="a", steps="50", gpus="4"))
    source = TraceSource(cluster, IdealModel(("a",)), GavelTrace(), path=str(path), elastic=1.0, evaluate_on="all")
    (workload,) = source.evaluation()
    assert workload.jobs["work"].tolist() == [200.0]
    stranger = TraceSource(cluster, IdealModel(("b",)), GavelTrace(), path=str(path))
    with pytest.raises(TraceError, match="row 1: model 'a' has no throughput figures"):
        _ = stranger.workload


def test_tiresias_by_hand(write):
    path = write("t.csv", TIRESIAS + "7,4,30,100,vgg16,50,1\n3,1,10,100,vgg16,20,1\n9,0,40,1,vgg16,5,1\n")
    frame, report = TiresiasTrace().read(path)
    assert frame["submit_time"].tolist() == [0.0, 20.0]
    assert frame["duration"].tolist() == [20.0, 50.0]
    assert frame["num_gpus"].tolist() == [1, 4]
    assert frame["id"].tolist() == ["3", "7"]
    assert "model" not in frame
    assert report.skipped == {"no GPUs requested": 1}


def test_tiresias_malformed_rows(write):
    path = write("t.csv", TIRESIAS + "1,4,30,100,vgg16,50,1\n2,4,soon,100,vgg16,50,1\n")
    assert len(TiresiasTrace().read(path)[0]) == 1
    with pytest.raises(TraceError, match="row 3.*submit_time"):
        TiresiasTrace().read(path, strict=True)


MURI_ROWS = MURI + "1,2,1000,200,dqn,128,9000,0,500\n2,8,5000,10,vgg19,16,8000,0,100\n"


def test_muri_service_time_has_the_factor_of_its_simulator(write):
    """200 x 500 ms x 1.015 = 101.5 s, 10 x 100 ms x 1.015 = 1.015 s; the column `duration` has 9 and 8 s."""
    path = write("m.csv", MURI_ROWS)
    frame, report = MuriTrace(service="iterations").read(path)
    assert frame["duration"].tolist() == pytest.approx([101.5, 1.015], rel=1e-12)
    assert "1.015" in " ".join(report.notes)
    assert MuriTrace().read(path)[0]["duration"].tolist() == [9.0, 8.0]


def test_muri_without_the_assigned_models(write):
    path = write("m.csv", MURI_ROWS)
    frame, report = MuriTrace(assigned_models=False).read(path)
    assert "model" not in frame
    assert not any("assigned" in note for note in report.notes)
    assert MuriTrace().read(path)[0]["model"].tolist() == ["dqn", "vgg19"]


def test_muri_needs_the_columns_of_its_service_time(write):
    path = write("m.csv", MURI.replace(",iteration_time", "") + "1,2,1000,200,dqn,128,9000,0\n")
    assert len(MuriTrace().read(path)[0]) == 1
    with pytest.raises(TraceError, match="no column 'iteration_time'"):
        MuriTrace(service="iterations").read(path)


@pytest.mark.parametrize("cells", ["many,dqn,128,9000,0,500", "200,dqn,128,9000,0,-1", "1e11,dqn,128,9000,0,1e9"])
def test_muri_malformed_service_times(write, cells):
    path = write("m.csv", MURI_ROWS + f"3,1,6000,{cells}\n")
    frame, report = MuriTrace(service="iterations").read(path)
    assert len(frame) == 2
    assert [bad.row for bad in report.examples] == [4]


def test_muri_knows_two_service_times():
    with pytest.raises(TraceError, match="service is 'time'; it must be duration or iterations"):
        MuriTrace(service="time")  # type: ignore[arg-type]
