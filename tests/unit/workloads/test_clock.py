"""Times of day with and without a time zone, and across changes of the clock, in every reader that reads them."""

import json

import pytest

from envs.types import TraceError
from envs.workloads.readers import CsvTrace, HeliosTrace, PhillyRawTrace, PhillyTrace
from envs.workloads.readers.clock import NO_ZONE_NOTE, find_zone, midnight_before

BERLIN, PACIFIC = "Europe/Berlin", "America/Los_Angeles"
HOUR = 3600.0
COLUMNS = {"submit_time": "at", "start_time": "from", "end_time": "to", "num_gpus": "n"}


def read(write, rows, *, layouts=("ISO8601", "ISO8601", "ISO8601"), strict=True, **options):
    """The frame and the report of rows of submission, start and end."""
    units = dict(zip(("submit_time", "start_time", "end_time"), layouts, strict=True))
    text = "at,from,to,n\n" + "".join(f"{row},1\n" for row in rows)
    return CsvTrace(COLUMNS, units=units, **options).read(write("jobs.csv", text), strict=strict)


DAY_OF_START = "2024-03-04T08:00:00,2024-03-04T08:10:00,"


def test_a_start_without_and_an_end_with_a_zone_are_refused(write):
    """20 minutes in Berlin would be 30,000 s in the other direction, or a row that ends before it starts."""
    with pytest.raises(TraceError) as error:
        read(write, [DAY_OF_START + "2024-03-04T00:30:00-08:00"])
    assert str(error.value).endswith(
        "jobs.csv: to of row 2 is '2024-03-04T00:30:00-08:00' with a time zone, "
        "but at of row 2 is '2024-03-04T08:00:00' without one; "
        "set workload.reader.timezone to the zone of times without one, such as Europe/Berlin"
    )


def test_a_mixture_within_one_column_is_refused(write):
    sound = DAY_OF_START + "2024-03-04T08:30:00"
    with pytest.raises(TraceError, match=r"at of row 4 is '.*Z' with a time zone, but at of row 2 is .* without one"):
        read(write, [sound, sound, sound.replace(":00,", ":00Z,", 1)])


@pytest.mark.parametrize("layout", ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%SZ"])
def test_a_layout_with_a_zone_differs_from_one_without(write, layout):
    with pytest.raises(TraceError, match="to of row 2 is '2024-03-04T08:30:00Z' with a time zone, but at of row 2"):
        read(write, [DAY_OF_START + "2024-03-04T08:30:00Z"], layouts=("ISO8601", "ISO8601", layout))


def test_with_a_timezone_both_forms_are_the_same_instants(write):
    rows = [DAY_OF_START + "2024-03-04T07:30:00Z", DAY_OF_START + "2024-03-04T08:30:00"]
    frame, report = read(write, rows, timezone=BERLIN)
    assert frame["duration"].tolist() == [1200.0, 1200.0]
    assert frame["submit_time"].tolist() == [8 * HOUR, 8 * HOUR]  # since midnight in Berlin
    assert NO_ZONE_NOTE not in report.notes


def test_dates_are_no_zones(write):
    """2024-03-04 ends like an offset of four hours."""
    frame, report = read(write, ["2024-03-04,2024-03-04 08:00,2024-03-04 09:00"])
    assert frame["duration"].tolist() == [HOUR]
    assert NO_ZONE_NOTE in report.notes


def test_bad_and_zoneless_rows_do_not_make_a_mixture(write):
    sound = "2024-03-04T08:00:00Z,2024-03-04T08:10:00Z,2024-03-04T08:30:00Z"
    frame, report = read(write, [sound, DAY_OF_START.replace("2024", "0001") + "2024-03-04T08:30:00Z"], strict=False)
    assert len(frame) == 1
    assert sum(report.bad.values()) == 1


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("2024-03-31T01:30:00", "2024-03-31T03:30:00", 1.0),  # the clock skips an hour
        ("2024-10-27T00:30:00", "2024-10-27T03:30:00", 4.0),  # and repeats one
    ],
)
def test_a_night_in_which_the_clock_changes(write, start, end, hours):
    row = f"{start},{start},{end}"
    assert read(write, [row], timezone=BERLIN)[0]["duration"].tolist() == [hours * HOUR]
    assert read(write, [row], timezone="UTC")[0]["duration"].tolist() == read(write, [row])[0]["duration"].tolist()
    assert read(write, [row])[0]["duration"].tolist() != [hours * HOUR]


def test_a_time_that_the_clock_skips_is_a_bad_row(write):
    rows = ["2024-03-31T01:30:00,2024-03-31T01:30:00,2024-03-31T03:30:00", "2024-03-31T02:30:00,x,x"]
    _, report = read(write, rows, timezone=BERLIN, strict=False)
    assert report.bad == {"at must be a time that exists in Europe/Berlin, where the clock skips this one": 1}
    with pytest.raises(TraceError, match=r"row 3: at is '2024-03-31T02:30:00'; it must be a time that exists"):
        read(write, rows, timezone=BERLIN)


def test_a_time_that_the_clock_shows_twice_is_the_first_and_is_told(write):
    frame, report = read(write, ["2024-10-27T01:30:00,2024-10-27T02:30:00,2024-10-27T04:30:00"], timezone=BERLIN)
    assert frame["duration"].tolist() == [3 * HOUR]
    assert report.notes[-1] == "from: 1 times are in an hour that the clock repeats, and count as its first pass"


def test_seconds_and_calendar_times_need_a_timezone(write):
    with pytest.raises(TraceError, match=r"timezone is not set; only end_time is a calendar time"):
        read(write, [], layouts=("s", "s", "ISO8601"))
    frame, _ = read(write, ["0,1709535600,2024-03-04T09:00:00"], layouts=("s", "s", "ISO8601"), timezone=BERLIN)
    assert frame["duration"].tolist() == [2 * HOUR - HOUR]


def philly_raw(start, end):
    attempt = {"start_time": start, "end_time": end, "detail": [{"ip": "m", "gpus": ["gpu0"]}]}
    return json.dumps([{"vc": "a", "jobid": "j", "attempts": [attempt], "submitted_time": start, "user": "u"}])


FILES = {
    PhillyTrace: lambda at: f"timestamp,duration,num_gpus,cluster\n{at},60,1,a\n2017-11-05 23:00:00,60,1,a\n",
    HeliosTrace: lambda at: f"job_id,vc,gpu_num,submit_time,duration\n1,a,1,{at},60\n2,a,1,2017-11-05 23:00:00,60\n",
}


@pytest.mark.parametrize("reader", FILES)
def test_the_readers_of_local_times_know_the_hour_that_a_day_has_more(write, reader):
    path = write("jobs.csv", FILES[reader]("2017-11-05 00:30:00"))
    for zone, hours in ((None, [0.5, 23.0]), (PACIFIC, [0.5, 24.0])):
        frame, report = reader(timezone=zone).read(path, strict=True)
        assert frame["submit_time"].tolist() == [hour * HOUR for hour in hours]
        assert any("local" in note for note in report.notes) == (zone is None)


def test_the_attempts_of_phillys_log_know_it_too(write):
    path = write("log", philly_raw("2017-11-05 00:30:00", "2017-11-05 03:30:00"))
    for zone, hours in ((None, 3.0), (PACIFIC, 4.0)):
        frame, _ = PhillyRawTrace(timezone=zone).read(path, strict=True)
        assert frame["duration"].tolist() == [hours * HOUR]
        assert frame["submit_time"].tolist() == [0.5 * HOUR]


@pytest.mark.parametrize("name", ["Europe/Berlim", "Europe", "/etc/passwd", "../UTC", "", "x" * 9000, "a\0b", "CEST+1"])
def test_a_zone_that_does_not_exist_is_refused(write, name):
    with pytest.raises(
        TraceError, match=r"workload\.reader\.timezone is .*; it must name a time zone, such as"
    ) as error:
        read(write, [DAY_OF_START + "2024-03-04T08:30:00"], timezone=name)
    assert len(str(error.value)) < 300
    if name == "Europe/Berlim":
        assert str(error.value).endswith("did you mean Europe/Berlin?")


@pytest.mark.parametrize(("zone", "hours"), [(None, 24.0), ("UTC", 24.0), (PACIFIC, 7.0), ("Asia/Shanghai", 16.0)])
def test_midnights(zone, hours):
    """2017-10-02 03:00 in UTC is the evening of the first in California."""
    assert midnight_before(1_506_913_200.0, zone) == 1_506_816_000.0 + hours * HOUR
    assert midnight_before(float("inf"), zone) == float("inf")
    assert find_zone(zone or "UTC") is not None
