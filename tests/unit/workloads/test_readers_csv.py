"""Readers of comma-separated files (Philly, ITP, Muri, Helios), tested on files written here."""

import gzip

import pytest

from envs.types import TraceError
from envs.workloads.readers import HeliosTrace, ItpTrace, MuriTrace, PhillyTrace

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ITP = "cluster,submission_time,duration,num_gpu\n"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval\n"
HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_philly_by_hand(write):
    text = (
        PHILLY + "2017-10-09 07:00:05,60.0,2,120.0,red\n"
        "2017-10-08 01:00:00,10.0,1,10.0,blue\n"
        "2017-10-09 07:00:05,60.0,2,120.0,red\n"  # an exact duplicate
        "2017-10-09 07:00:05,61.0,2,122.0,red\n"  # a burst: same second, another job
    )
    frame, report = PhillyTrace().read(write("p.csv", text))
    # t = 0 is the midnight before the first job, in the trace's own local time.
    assert frame["submit_time"].tolist() == [3600.0, 86400 + 25205.0, 86400 + 25205.0]
    assert frame["duration"].tolist() == [10.0, 60.0, 61.0]
    assert frame["tenant"].tolist() == ["blue", "red", "red"]
    assert frame["row"].tolist() == [3, 2, 5]
    assert report.skipped == {"exact duplicates of an earlier row": 1}
    assert "2017-11-05" in report.notes[0]
    assert "not in order" in report.notes[1]


def test_philly_virtual_clusters_share_one_calendar(write):
    path = write("p.csv", PHILLY + "2017-10-08 00:00:00,5,1,5,a\n2017-10-10 00:00:10,5,1,5,b\n")
    frame, report = PhillyTrace(virtual_clusters=["b"]).read(path)
    assert frame["submit_time"].tolist() == [2 * 86400 + 10.0]
    assert report.skipped == {"other virtual clusters": 1}


def test_the_repeated_hour_of_the_clock_change_is_unchanged(write):
    rows = "2017-11-05 01:30:00,5,1,5,a\n2017-11-05 02:30:00,5,1,5,a\n"
    frame, _ = PhillyTrace().read(write("p.csv", PHILLY + rows))
    assert frame["submit_time"].diff().iloc[1] == 3600.0


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("yesterday,5,1,5,a", "timestamp"),
        ("2017-10-08 00:00:00,-5,1,5,a", "duration"),
        ("2017-10-08 00:00:00,nan,1,5,a", "duration"),
        ("2017-10-08 00:00:00,,1,5,a", "duration"),
        ("2017-10-08 00:00:00,1e18,1,5,a", "duration"),
        ("2017-10-08 00:00:00,5,two,5,a", "num_gpus"),
        ("2017-10-08 00:00:00,5,1.5,5,a", "num_gpus"),
        ("2017-10-08 00:00:00,5,-1,5,a", "num_gpus"),
        ("2017-10-08 00:00:00,5,1e30,5,a", "num_gpus"),
        ("2017-10-08 00:00:00,5", "timestamp"),
    ],
)
def test_a_malformed_row_is_counted_with_row_and_field_or_raised(write, row, field):
    path = write("p.csv", PHILLY + "2017-10-08 00:00:00,5,1,5,a\n" + row + "\n")
    frame, report = PhillyTrace().read(path)
    assert len(frame) == report.kept == 1
    assert sum(report.bad.values()) == 1
    assert (report.examples[0].row, report.examples[0].field) == (3, field)
    assert f"first at row 3: {field} is" in report.summary()
    with pytest.raises(TraceError, match=rf"p\.csv: row 3: {field} is"):
        PhillyTrace().read(path, strict=True)


def test_jobs_without_gpus_or_time_are_skipped_not_bad(write):
    text = PHILLY + "2017-10-08 00:00:00,5,0,0,a\n2017-10-08 00:00:00,0,1,0,a\n2017-10-08 00:00:00,5,1,5,a\n"
    frame, report = PhillyTrace().read(write("p.csv", text), strict=True)
    assert len(frame) == 1
    assert report.skipped == {"no GPUs requested": 1, "zero duration": 1}


def test_itp_keeps_bursts_of_equal_rows(write):
    text = ITP + "c2,1000,700,8\nc1,900,600,1\nc2,1000,700,8\n"
    frame, report = ItpTrace().read(write("i.csv", text))
    assert frame["submit_time"].tolist() == [0.0, 100.0, 100.0]
    assert frame["num_gpus"].tolist() == [1, 8, 8]
    assert report.kept == 3
    only, report = ItpTrace(clusters=["c2"]).read(write("i.csv", text))
    assert only["submit_time"].tolist() == [100.0, 100.0]
    assert report.skipped == {"other clusters": 1}


def itp_folder(write, rows):
    """Write two of the ten published files: rows by cluster."""
    for cluster, text in rows.items():
        folder = write(f"raw/{cluster}.csv", "job_id,submission_time,duration,num_gpu\n" + text).parent
    return folder


def test_itp_reads_the_published_files_like_one_joined_file(write):
    folder = itp_folder(write, {"cluster01": "x,900,600,1\ny,1200,650,2\n", "cluster02": "z,1000,700,8\n"})
    one = write("one.csv", ITP + "cluster01,900,600,1\ncluster01,1200,650,2\ncluster02,1000,700,8\n")
    for reader in (ItpTrace(), ItpTrace(clusters=["cluster02"])):
        (ours, said), (theirs, expected) = reader.read(folder), reader.read(one)
        columns = ["submit_time", "duration", "num_gpus", "tenant"]
        assert ours[columns].to_numpy().tolist() == theirs[columns].to_numpy().tolist()
        assert (said.rows, said.kept, said.skipped) == (expected.rows, expected.kept, expected.skipped)


@pytest.mark.parametrize("name", ["cluster02.csv", "cluster02.csv.gz"])
def test_itp_reads_one_published_file_as_the_cluster_of_its_name(write, name):
    text = "job_id,submission_time,duration,num_gpu\nx,900,600,1\ny,1200,650,2\n"
    path = write(name, text)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    for reader in (ItpTrace(), ItpTrace(clusters=["cluster02"])):
        frame, report = reader.read(path, strict=True)
        assert frame["submit_time"].tolist() == [0.0, 300.0]
        assert frame["tenant"].tolist() == ["cluster02", "cluster02"]
        assert (report.rows, report.kept) == (2, 2)
    with pytest.raises(
        TraceError, match=r"workload\.reader\.clusters has 'cluster01', but no row has it; .*'cluster02'"
    ):
        ItpTrace(clusters=["cluster01"]).read(path)


def test_itp_reads_a_folder_of_compressed_files(tmp_path):
    (tmp_path / "cluster01.csv.gz").write_bytes(gzip.compress(b"submission_time,duration,num_gpu\n5,600,1\n"))
    frame, _ = ItpTrace().read(tmp_path)
    assert frame["tenant"].tolist() == ["cluster01"]


def test_dates_before_1970_are_bad_rows(write):
    """0001-01-01 is what some systems write for "none"; it parses as a date."""
    text = PHILLY + "2017-10-08 00:00:00,5,1,5,a\n0001-01-01 00:00:00,5,1,5,a\n"
    frame, report = PhillyTrace().read(write("p.csv", text))
    assert frame["submit_time"].tolist() == [0.0]
    assert report.bad == {"timestamp must be a time from 1970 to 2099": 1}
    with pytest.raises(TraceError, match=r"row 3: timestamp is '0001-01-01 00:00:00'; it must be a time from 1970"):
        PhillyTrace().read(write("p.csv", text), strict=True)


def test_a_malformed_row_of_a_folder_names_its_file(write):
    folder = itp_folder(write, {"cluster01": "x,900,600,1\nx\n", "cluster02": "y,soon,700,8\nz,1000,700,8\n"})
    _, report = ItpTrace().read(folder)
    assert (report.rows, report.kept, sum(report.bad.values())) == (4, 2, 2)
    assert [(bad.file, bad.row) for bad in report.examples] == [("cluster01.csv", 3), ("cluster02.csv", 2)]
    assert "first at cluster01.csv row 3: job_id is 'x'" in report.summary()
    with pytest.raises(TraceError, match=r"cluster02\.csv row 2: submission_time is 'soon'"):
        ItpTrace().read(itp_folder(write, {"cluster01": "x,900,600,1\n"}), strict=True)


def test_the_error_for_a_folder_without_the_published_files_says_what_to_put_there(tmp_path):
    with pytest.raises(TraceError, match=r"has no cluster\*\.csv; unpack data/raw-traces\.tar\.gz"):
        ItpTrace().read(tmp_path)


def test_muri_times_are_milliseconds_and_its_models_are_read(write):
    text = MURI + "0,4,0,10,bert,4,5000,0\n1,1,1500,10,vgg16,16,250,1500\n"
    frame, report = MuriTrace().read(write("m.csv", text))
    assert frame["submit_time"].tolist() == [0.0, 1.5]
    assert frame["duration"].tolist() == [5.0, 0.25]
    assert frame["model"].tolist() == ["bert", "vgg16"]
    assert frame["id"].tolist() == ["0", "1"]
    assert "not observed" in report.notes[0]


def test_a_muri_job_without_a_model_is_bad(write):
    path = write("m.csv", MURI + "0,4,0,10,bert,4,5000,0\n1,4,0,10,,4,5000,0\n")
    assert MuriTrace().read(path)[1].bad == {"model_name must name a model": 1}


def test_a_repeated_muri_job_is_left_out_and_counted(write):
    row = "1,1,1500,10,vgg16,16,250,1500\n"
    path = write("m.csv", MURI + "0,4,0,10,bert,4,5000,0\n" + row * 3)
    frame, report = MuriTrace().read(path, strict=True)
    assert frame["id"].tolist() == ["0", "1"]
    assert report.skipped == {"exact duplicates of an earlier row": 2}


def test_a_second_muri_job_with_the_same_id_is_malformed(write):
    path = write("m.csv", MURI + "0,4,0,10,bert,4,5000,0\n0,1,1500,10,vgg16,16,250,1500\n")
    frame, report = MuriTrace().read(path)
    assert frame["model"].tolist() == ["bert"]
    assert report.bad == {"job_id must differ from that of every earlier row": 1}
    with pytest.raises(
        TraceError, match=r"m\.csv: row 3: job_id is '0'; it must differ from that of every earlier row"
    ):
        MuriTrace().read(path, strict=True)


def test_the_id_of_a_malformed_row_stays_free(write):
    path = write("m.csv", MURI + "0,4,0,10,bert,4,soon,0\n0,1,1500,10,vgg16,16,250,1500\n")
    frame, report = MuriTrace().read(path)
    assert frame["model"].tolist() == ["vgg16"]
    assert report.bad == {"duration must be a finite number": 1}


def test_muri_names_its_files():
    assert MuriTrace("cluster_trace").location == "traces/muri/cluster_trace.csv.gz"


def test_helios_by_its_published_schema(write):
    text = (
        HELIOS + "1,u1,vcA,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
        "2,u2,vcB,16,16,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:42:27,2020-06-09 18:45:36,189,60\n"
        "3,u3,vcB,0,8,1,COMPLETED,2020-06-09 18:50:00,2020-06-09 18:50:00,2020-06-09 18:51:00,60,0\n"
        "4,u3,vcB,8,8,1,CANCELLED,2020-06-09 18:50:00,None,2020-06-09 18:51:00,0,60\n"
        "5,u3,vcB,8,8,1,COMPLETED,None,None,None,60,0\n"
    )
    frame, report = HeliosTrace().read(write("h.csv", text))
    assert frame["submit_time"].tolist() == [67261.0, 67287.0]
    assert frame["duration"].tolist() == [36848.0, 189.0]
    assert frame["num_gpus"].tolist() == [1, 16]
    assert frame["tenant"].tolist() == ["vcA", "vcB"]
    assert frame["user"].tolist() == ["u1", "u2"]
    assert "name" not in frame  # the publication has none; an id of the job is no name
    assert report.skipped == {"no GPUs requested": 1, "zero duration": 1}
    assert report.bad == {"submit_time must be a time like 2017-10-09 07:01:55": 1}


def test_helios_may_be_read_for_one_virtual_cluster(write):
    rows = "".join(f"{i},u,vc{i},1,1,1,COMPLETED,2020-06-0{i} 00:00:00,x,x,60,0\n" for i in (1, 2))
    frame, _ = HeliosTrace(virtual_clusters=["vc2"]).read(write("h.csv", HELIOS + rows))
    assert frame["submit_time"].tolist() == [86400.0]


@pytest.mark.parametrize(
    ("reader", "header", "column"),
    [
        (PhillyTrace(), PHILLY, "duration"),
        (ItpTrace(), ITP, "num_gpu"),
        (MuriTrace(), MURI, "model_name"),
        (HeliosTrace(), HELIOS, "vc"),
    ],
)
def test_the_error_names_a_missing_column(write, reader, header, column):
    path = write("t.csv", header.replace(column, "zzz") + "1,2,3,4,5,6,7,8,9,10,11,12\n")
    with pytest.raises(TraceError, match=rf"t\.csv: has no column '{column}'; it has .*a {reader.name} trace needs"):
        reader.read(path)
