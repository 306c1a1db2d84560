"""The report of a reader: one line, and counts that add up."""

from envs.workloads.readers import BadRow, ReadReport

REPORT = ReadReport(
    "toy",
    "toy.csv",
    1200,
    1190,
    bad={"duration must be a finite number": 4},
    skipped={"zero duration": 6},
    examples=(BadRow(17, "duration", "soon", "must be a finite number"),),
)


def test_the_summary_is_one_line_that_accounts_for_every_row():
    assert REPORT.summary() == (
        "toy: 1,200 rows read, 1,190 kept; skipped 6 (zero duration); bad 4 (duration must be a finite number), "
        "first at row 17: duration is 'soon'; it must be a finite number"
    )


def test_a_clean_trace_has_a_short_summary():
    assert ReadReport("toy", "toy.csv", 3, 3).summary() == "toy: 3 rows read, 3 kept"


def test_dropping_moves_rows_from_kept_to_skipped():
    after = REPORT.dropping("more than 8 GPUs", 90).dropping("more than 8 GPUs", 10)
    assert after.kept == 1090
    assert after.skipped == {"zero duration": 6, "more than 8 GPUs": 100}
    assert after.rows == after.kept + sum(after.bad.values()) + sum(after.skipped.values())
    assert REPORT.kept == 1190


def test_dropping_nothing_changes_nothing():
    assert REPORT.dropping("more than 8 GPUs", 0) is REPORT
