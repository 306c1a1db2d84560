"""The table of readers: malformed rows of every sort, and files that are not traces."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import TraceError
from envs.workloads.readers import CsvTrace
from envs.workloads.readers.table import MAX_SECONDS, TraceTable, read_csv


def table(*values: str, strict: bool = False) -> TraceTable:
    return TraceTable("toy", Path("toy.csv"), {"x": values}, range(2, 2 + len(values)), strict=strict)


def test_numbers_parse_with_blanks_and_exponents():
    found = table(" 1", "2.5 ", "1e3").numbers("x")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.5, 1000.0]


@pytest.mark.parametrize(
    ("value", "options", "reason"),
    [
        ("two", {}, "must be a finite number"),
        ("", {}, "must be a finite number"),
        ("nan", {}, "must be a finite number"),
        ("inf", {}, "must be a finite number"),
        ("-3", {}, "must be at least 0"),
        ("-2", {"low": -1.0}, "must be at least -1"),
        ("1e300", {}, f"must be at most {MAX_SECONDS:g}"),
        ("9", {"high": 8.0}, "must be at most 8"),
        ("1.5", {"whole": True}, "must be a whole number"),
    ],
)
def test_each_sort_of_bad_number_is_counted_or_raised(value, options, reason):
    lenient = table("1", value, "2")
    lenient.numbers("x", **options)
    assert lenient.sound.tolist() == [True, False, True]
    assert lenient.bad == {f"x {reason}": 1}
    with pytest.raises(TraceError) as error:
        table("1", value, "2", strict=True).numbers("x", **options)
    message = str(error.value)
    assert message.startswith(f"toy.csv: row 3: x is {value!r}; it {reason}")
    assert "workload.strict=false" in message
    assert "\n" not in message


def test_only_the_first_verdict_on_a_row_counts():
    rows = table("-1.5", "0")
    rows.numbers("x", whole=True)
    rows.skip(np.array([True, True]), "not wanted")
    assert rows.bad == {"x must be at least 0": 1}
    assert rows.skipped == {"not wanted": 1}


@pytest.mark.parametrize("layout", ["%Y-%m-%d %H:%M:%S", "ISO8601"])
@pytest.mark.parametrize("word", ["now", "today", "NaT"])
def test_words_are_no_times(layout, word):
    """pandas takes some for the present time, so that a file would be read differently each day."""
    rows = table("2024-03-04 08:00:00", word)
    assert rows.times("x", layout)[1] == 0.0
    assert rows.sound.tolist() == [True, False]


def test_times_are_seconds_without_a_zone():
    rows = table("1970-01-02 00:00:01", "2017-11-05 01:30:00", "2017-13-01 00:00:00", "yesterday", "")
    found = rows.times("x")
    assert found[0] == 86401.0
    assert found[1] % 86400 == 5400.0
    assert rows.sound.tolist() == [True, True, False, False, False]
    assert rows.bad == {"x must be a time like 2017-10-09 07:01:55": 3}


def test_only_the_first_examples_are_kept_and_long_values_cut():
    rows = table(*["y" * 500] * 10)
    rows.numbers("x")
    assert [example.row for example in rows.examples] == [2, 3, 4]
    assert max(len(example.value) for example in rows.examples) == 40


def test_finish_sorts_stably_and_shifts_to_zero():
    rows = table("a", "b", "c")
    frame, report = rows.finish(
        {"submit_time": np.array([30.0, 10.0, 10.0]), "duration": np.ones(3), "num_gpus": np.array([1.0, 2.0, 3.0])}
    )
    assert frame["submit_time"].tolist() == [0.0, 0.0, 20.0]
    assert frame["num_gpus"].tolist() == [2, 3, 1]
    assert frame["row"].tolist() == [3, 4, 2]
    assert "not in order" in report.notes[-1]


def test_finish_with_an_origin_keeps_the_time_of_day():
    frame, report = table("a").finish(
        {"submit_time": np.array([90.0]), "duration": np.ones(1), "num_gpus": np.ones(1)}, origin=60.0
    )
    assert frame["submit_time"].tolist() == [30.0]
    assert report.notes == ()


def test_the_error_for_a_trace_without_a_usable_row_gives_the_reason():
    rows = table("never")
    rows.numbers("x")
    with pytest.raises(TraceError, match="none of its 1 rows is a usable toy job: row 2: x is 'never'"):
        rows.finish({"submit_time": np.zeros(1), "duration": np.ones(1), "num_gpus": np.ones(1)})


def test_the_error_for_a_trace_of_skipped_rows_gives_the_reasons():
    rows = table("1", "2")
    rows.skip(np.array([True, True]), "zero duration")
    with pytest.raises(TraceError, match="none of its 2 rows is a usable toy job: 2 zero duration"):
        rows.finish({"submit_time": np.zeros(2), "duration": np.ones(2), "num_gpus": np.ones(2)})


cells = st.sampled_from(["1", "0", "2.5", "-1", "nan", "many", "", "1e400", "7"])


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=40))
def test_rows_are_conserved(rows):
    made = TraceTable(
        "toy", Path("toy.csv"), {"d": [d for d, _ in rows], "n": [n for _, n in rows]}, range(2, 2 + len(rows))
    )
    duration, num_gpus = made.numbers("d"), made.numbers("n", high=64, whole=True)
    made.skip_duplicates()
    made.skip_idle(duration, num_gpus)
    columns = {"submit_time": np.zeros(len(rows)), "duration": duration, "num_gpus": num_gpus}
    if not made.sound.any():
        with pytest.raises(TraceError):
            made.finish(columns)
        return
    frame, report = made.finish(columns)
    assert report.rows == len(rows) == len(frame) + sum(report.bad.values()) + sum(report.skipped.values())
    assert (frame["duration"] > 0).all()
    assert (frame["num_gpus"] >= 1).all()


def test_csv_rows_have_the_line_numbers_of_an_editor(write):
    path = write("toy.csv", "a,b\n1,2\n\n3,4\n")
    read = read_csv("toy", path, ("a", "b"))
    assert read.rows.tolist() == [2, 4]
    assert read.text("b").tolist() == ["2", "4"]


def test_a_byte_order_mark_and_windows_lines_do_not_matter(tmp_path):
    path = tmp_path / "toy.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert read_csv("toy", path, ("a",)).text("b").tolist() == ["2"]


def test_rows_of_the_wrong_width_are_bad(write):
    path = write("toy.csv", "a,b\n1,2\n3\n4,5,6\n")
    read = read_csv("toy", path, ("a", "b"))
    assert read.sound.tolist() == [True, False, False]
    assert read.bad == {"a must be in a row of 2 fields": 2}
    with pytest.raises(TraceError, match="row 3: a is '3'; it must be in a row of 2 fields"):
        read_csv("toy", path, ("a", "b"), strict=True)


def test_a_file_without_header_gets_the_published_one(write):
    assert read_csv("toy", write("x.csv", "1,2\n"), ("a",), header=("a", "b")).text("a").tolist() == ["1"]
    assert read_csv("toy", write("y.csv", "a,b\n1,2\n"), ("a",), header=("a", "b")).text("a").tolist() == ["1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a toy trace begins with the columns a, b"),
        ("\n\n", "is empty"),
        ("a,b\n", "has a header but no rows"),
        ("a,c\n1,2\n", "has no column 'b'; it has a, c; a toy trace needs a, b"),
    ],
)
def test_files_that_are_not_traces(write, text, message):
    with pytest.raises(TraceError) as error:
        read_csv("toy", write("toy.csv", text), ("a", "b"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("header", "places"), [("a,b,a", "1 and 3"), ("a,b, a ", "1 and 3"), ("b,a,x,x", "3 and 4")])
def test_two_columns_of_one_name_are_refused(write, header, places):
    path = write("toy.csv", f"{header}\n1,2,3\n")
    with pytest.raises(TraceError, match=rf"toy\.csv: row 1: columns {places} are both named '[ax]'; give each"):
        read_csv("toy", path, ("a", "b"))


def test_columns_without_a_name_may_repeat(write):
    assert read_csv("toy", write("toy.csv", "a,,\n1,2,3\n"), ("a",)).text("a").tolist() == ["1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,"b\n1,2\n3,4\n', "row 1: a quote is opened but not closed"),
        ('a,"b\n1,2"\n3,4\n', r"row 1: the column 'b\\n1,2' goes over several lines; close its quote"),
        ('a,b\n1,2\n3,"4\n5,6\n', "row 3: a quote is opened but not closed"),
        ('a,b\n1,2\n3,"', "row 3: a quote is opened but not closed"),
        ('a,b\n1,"' + "x\n" * 70_000, "row 2: cannot be split into fields .*; is a quote not closed"),
    ],
)
def test_an_open_quote_is_an_error_of_one_line(write, text, message):
    """Open to the end of the file, it would swallow all further rows into one sound row."""
    with pytest.raises(TraceError, match=rf"toy\.csv: {message}") as error:
        read_csv("toy", write("toy.csv", text), ("a",))
    assert "\n" not in str(error.value)


def test_a_quoted_field_may_go_over_several_lines(write):
    read = read_csv("toy", write("toy.csv", 'a,b\n1,"x\ny"\n2,"z""z"\n'), ("a",))
    assert read.text("b").tolist() == ["x\ny", 'z"z']
    assert read.rows.tolist() == [3, 4]


def test_where_fields_have_no_quotes_a_quote_is_a_character(write):
    read = read_csv("toy", write("toy.txt", 'a|b\n"x|1\n"y"|2\n'), ("a",), delimiter="|", quoted=False)
    assert read.text("a").tolist() == ['"x', '"y"']


def test_what_a_message_quotes_of_a_file_controls_no_terminal(write):
    with pytest.raises(TraceError) as error:
        read_csv("toy", write("toy.csv", "\x1b[2J,b\n1,2\n"), ("a",))
    assert r"it has \x1b[2J, b;" in str(error.value)


def test_notes_and_summary_control_no_terminal_either(write):
    header = "\x1b[2J,submit_time,duration,num_gpus"
    reader = CsvTrace({name: name for name in header.split(",")[1:]})
    _, report = reader.read(write("toy.csv", f"{header}\n1,2,3,4\n5\n"))
    assert r"columns that are not read: \x1b[2J" in report.notes
    assert r"bad 1 (\x1b[2J must be in a row of 4 fields)" in report.summary()
    assert all(line.isprintable() for line in (report.summary(), *report.notes))


def test_a_header_that_another_character_separates(write):
    with pytest.raises(TraceError, match=r"it has a;b; .* its header has no ',', which must separate the columns$"):
        read_csv("toy", write("toy.csv", "a;b\n1;2\n"), ("a", "b"))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "has True, but no row has it; its column x has 'no', 'yes'; in YAML, yes, no, .* need quotes"),
        ("Yes", "has 'Yes', but no row has it; .*did you mean 'yes'"),
        (1.0, "has 1.0, but no row has it; .*leave the value out, or correct it"),
    ],
)
def test_a_value_of_a_setting_that_no_row_has_is_refused(value, said, drop):
    rows = table("no", "no", "yes")
    with pytest.raises(TraceError, match=rf"toy\.csv: reader\.keep {said}"):
        rows.select("x", ["yes", value], "reader.keep", "not wanted", drop=drop)
    rows.select("x", ["yes"], "reader.keep", "not wanted", drop=drop)
    assert rows.sound.tolist() == [drop, drop, not drop]


def test_of_many_values_a_message_shows_the_most_frequent():
    rows = table(*[str(i) for i in range(100)], "7")
    with pytest.raises(TraceError, match=r"its column x has '7', .* and 92 others"):
        rows.select("x", ["many"], "reader.keep", "not wanted")
