"""Recorded results from the command line: written, read in place of playing, refused where they do not apply."""

import json
import zipfile
from copy import deepcopy

import pytest

from baselines.las import Las
from envs.evaluation.archive import MEMBER_SUFFIX, list_recorded, read_member, write_member
from envs.evaluation.record import digest_records, read_record, write_lines
from envs.types import MurmurationError
from murmuration.config.building import Component
from murmuration.config.choices import open_configs
from murmuration.config.describe import describe_schedulers
from murmuration.config.errors import ChoiceError
from murmuration.records.recorded import (
    BEFORE_SOURCES,
    OTHER_SOURCES,
    RECORDS_FOLDER,
    TaskRecords,
    configuration_of,
    count_remarks,
    differences,
    library_configurations,
    read_bounds,
    with_later_options,
)
from murmuration.records.sources import hash_sources
from murmuration.records.task_pages import (
    DIGEST,
    TABLE_SUFFIX,
    find_disagreements,
    recorded_tables,
    table_from_records,
)
from tests.unit.records.test_tasks import SHARED, composed
from tests.unit.runs.test_scripts import here

__all__ = ["here"]  # a fixture
OPTIONS = [*SHARED, "results=results"]


@pytest.fixture
def play(here, tmp_path):
    """Run `compare` on a small task; return how it ended, and its results by scheduler."""
    made: set[str] = set()

    def compare(*options):
        done = here(*OPTIONS, *options)
        folders = {path.name for path in (tmp_path / "runs" / "compare").glob("*")}
        (new,) = folders - made or {""}
        made.update(folders)
        path = tmp_path / "runs" / "compare" / new / "results.json"
        return done, json.loads(path.read_text()) if new and path.exists() else {}

    return compare


def figures(results):
    """The rows of all schedulers by name, to nine digits; the bounds too."""
    rows = {row["scheduler"]: row for row in [*results["schedulers"], *results["bounds"]]}
    for row in rows.values():
        for name, value in row.items():
            row[name] = float(f"{value:.7g}") if isinstance(value, float) else value
    return rows


def archive_of(tmp_path):
    (archive,) = (tmp_path / "results").iterdir()
    return archive


@pytest.fixture(scope="module")
def kept():
    """The name and content of the archive, and the results, once they have been made."""
    return []


@pytest.fixture
def recorded(play, tmp_path, kept):
    """The archive with records of three schedulers, and the results of the run that made it; they are played once."""
    if not kept:
        done, results = play("scheduler=[fifo,las,srtf]", "record=true")
        assert done.code == 0, done.err
        archive = archive_of(tmp_path)
        kept += [archive.name, archive.read_bytes(), results]
    name, content, results = kept
    archive = tmp_path / "results" / name
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(content)
    return archive, deepcopy(results)


def test_recorded_schedulers_have_the_rows_of_played_ones(play, recorded):
    archive, whole = recorded
    assert archive.name == f"shared-16-v{whole['settings']['task']['version']}-{whole['settings']['task']['hash']}.zip"
    assert list_recorded(archive) == ["fifo", "las", "srtf"]
    header = read_record(archive, "fifo").header
    assert (header.num_episodes, header.hash) == (6, whole["settings"]["task"]["hash"])
    assert header.configuration["_target_"] == "baselines.fifo.Fifo"

    done, mixed = play("scheduler=las", "recorded=true")
    assert done.code == 0, done.err
    assert figures(mixed) == figures(whole)
    done, one = play("scheduler=las", "recorded=fifo")
    assert [row["scheduler"] for row in one["schedulers"]] == ["las", "fifo"]
    done, none = play("scheduler=[]", "recorded=[las,srtf,fifo]", "reference=fifo")
    assert figures(none) == figures(whole)


def test_what_is_recorded_is_not_played_again(play, recorded):
    archive, _ = recorded
    marked = rewrite(archive, "fifo", lambda header, episodes: episodes[0].update(decision_seconds=77.0))
    done, results = play("scheduler=[fifo,random]", "record=true")
    assert done.code == 0, done.err
    assert results["cpu_time"]["decision_seconds"]["fifo"] > 77
    assert read_member(archive, "fifo") == marked
    play("scheduler=fifo", "record=true", "again=true")
    assert read_member(archive, "fifo") != marked
    assert list_recorded(archive) == ["fifo", "las", "random", "srtf"]


def test_a_record_that_changed_code_repeats_is_renewed(play, recorded):
    """Both have another hash; one has other figures too, which say that the code decides otherwise now."""
    archive, _ = recorded
    kept = rewrite(archive, "srtf", lambda header, episodes: header.update(sources="0" * 12))
    rewrite(
        archive, "las", lambda header, episodes: (header.update(sources="0" * 12), episodes[0].update(num_rounds=1))
    )
    done, results = play("scheduler=[srtf,las]", "record=true", "renew=2")
    assert done.code == 0, done.err
    assert "srtf: its record is renewed, as 2 of 6 episodes are played as before" in done.out
    assert "las: its record is not renewed: " in done.out
    assert [row["scheduler"] for row in results["schedulers"] if "remark" in row] == ["las"]
    header = read_record(archive, "srtf").header
    assert header.sources == hash_sources(header.configuration)
    assert read_member(archive, "srtf").splitlines()[1:] == kept.splitlines()[1:]


def rewrite(archive, scheduler, change):
    """Change the plain values of a record, and its checksum; return the new text."""
    header, *episodes = [json.loads(line) for line in read_member(archive, scheduler).splitlines()]
    change(header, episodes)
    write_lines(archive, scheduler, [header, *episodes])
    return read_member(archive, scheduler)


def test_bad_records_are_named_and_left_out_and_changed_sources_are_told(play, recorded, tmp_path):
    """One with a changed figure, one that says what cannot be, one of another scheduler, and one of other code."""
    archive, _ = recorded
    header = read_record(archive, "srtf").header
    assert header.sources == hash_sources(header.configuration)
    write_member(archive, "hesrpt", read_member(archive, "srtf"))
    write_member(archive, "fifo", read_member(archive, "fifo").replace('"num_late":', '"num_late":1', 1))
    rewrite(archive, "las", lambda header, episodes: episodes[1]["summary"].update(mean_jct=1))
    rewrite(archive, "srtf", lambda header, episodes: header.update(sources="0" * 12))
    done, results = play("scheduler=random", "recorded=true")
    assert done.code == 0, done.err
    reasons = {row["scheduler"]: row.get("inapplicable", "") for row in results["schedulers"]}
    assert {name for name, reason in reasons.items() if not reason} == {"random", "srtf"}
    assert "its checksum is of other content" in reasons["fifo"]
    assert "cannot be" in reasons["las"]
    assert "mean_jct is 1, but its JCTs give" in reasons["las"]
    assert "it is of 'srtf' in" in reasons["hesrpt"]
    assert not any("\n" in reason for reason in reasons.values())
    tables = [path.read_text() for path in (tmp_path / "runs" / "compare").glob("*/results.md")]
    (table,) = [text for text in tables if "hesrpt" in text]
    assert "\n| srtf * |" in table
    assert "Marked *: source files have changed since it was recorded; record=true again=true plays it anew." in table
    assert {row["scheduler"]: row["remark"] for row in results["schedulers"] if "remark" in row} == {
        "srtf": OTHER_SOURCES.text
    }
    rewrite(archive, "srtf", lambda header, episodes: header.update(sources=""))
    _, results = play("scheduler=random", "recorded=[srtf]")
    assert [row.get("remark") for row in results["schedulers"]] == [None, BEFORE_SOURCES.text]
    assert count_remarks(archive) == "4 records, 1 of other sources, 1 without a source hash, 1 unreadable"
    assert "las is left out: its record is not used: it cannot be: " in table


def test_an_interrupt_keeps_the_schedulers_that_are_finished(play, tmp_path, monkeypatch):
    written = TaskRecords.write

    def interrupt(self, scheduler, configuration, played):
        if scheduler == "srtf":
            raise KeyboardInterrupt
        written(self, scheduler, configuration, played)

    monkeypatch.setattr(TaskRecords, "write", interrupt)
    done, _ = play("scheduler=[fifo,srtf,las]", "record=true")
    assert done.code == 130
    assert list_recorded(archive_of(tmp_path)) == ["fifo"]


def test_a_record_of_other_options_or_rules_is_left_out_with_the_reason(play, recorded, monkeypatch):
    archive, _ = recorded
    rewrite(archive, "las", lambda header, episodes: header.update(world_version=0))
    real = library_configurations

    def changed(names):
        return {name: {**found, "backfill": "changed"} for name, found in real(names).items()}

    monkeypatch.setattr("murmuration.records.recorded.library_configurations", changed)
    done, results = play("scheduler=random", "recorded=true")
    assert done.code == 0, done.err
    reasons = {row["scheduler"]: row.get("inapplicable", "") for row in results["schedulers"]}
    assert "other options (backfill was" in reasons["fifo"]
    assert "was recorded with version 0 of the world's rules" in reasons["las"]
    assert list_recorded(archive) == ["fifo", "las", "srtf"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["scheduler=fifo", "record=true", "episodes=5"], "is no whole task; leave out episodes"),
        (["scheduler=fifo", "record=true", "split=validation"], "is no whole task"),
        (["scheduler=fifo", "recorded=true", "split=validation"], "leave out split"),
        (["scheduler=fifo", "record=true", "scheduler.backfill=skip"], "has other options than its file"),
        (["scheduler=[]", "+own._target_=baselines.fifo.Fifo", "record=true"], "own is not in conf/scheduler"),
        (["scheduler=fifo", "recorded=lass"], "has no such record; there are: none"),
    ],
)
def test_what_cannot_be_recorded_or_read_is_refused(play, options, said):
    done, _ = play(*options)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_without_a_task_nothing_is_recorded(here):
    done = here("task=none", "workload.num_jobs=4", "scheduler=fifo", "record=true")
    assert (done.code, "choose one with task=" in done.err) == (2, True)


def test_a_damaged_archive_is_refused_before_anything_is_played(play, recorded):
    archive, _ = recorded
    archive.write_bytes(archive.read_bytes()[:-9])
    for options in ("record=true", "recorded=true"):
        done, results = play("scheduler=las", options)
        assert (done.code, results) == (2, {})
        assert "is no archive of records" in done.err
        assert "delete it and record the task again" in done.err


def test_a_configuration_has_the_defaults_of_the_signature():
    with open_configs():
        (found,) = library_configurations(["fifo", "no_such"]).values()
    node = describe_schedulers(composed("task=none", schedulers="[fifo]"))["fifo"]
    assert found == configuration_of(node)
    assert found["backfill"] == "none"


def test_a_scheduler_that_fails_is_not_recorded_and_the_exit_code_says_so(play, tmp_path, monkeypatch):

    def fail(self, view):
        raise ZeroDivisionError("no jobs")

    monkeypatch.setattr(Las, "schedule", fail)
    done, results = play("scheduler=[fifo,las]", "record=true")
    assert done.code == 1
    assert "error: 1 of 2 schedulers failed: las failed in episode 0" in done.err
    rows = {row["scheduler"]: row for row in results["schedulers"]}
    assert rows["las"]["failed"] == "ZeroDivisionError: no jobs"
    assert "mean_jct" in rows["fifo"]
    assert list_recorded(archive_of(tmp_path)) == ["fifo"]
    shown = [line for line in done.out.splitlines() if line.strip().startswith("las")]
    assert shown[0].split()[:2] == ["las", "failed"]


def test_the_table_of_a_task_is_built_from_its_records(recorded, tmp_path):
    built = table_from_records("shared-16", tmp_path / "results", SHARED[1:])
    assert built.text.startswith(DIGEST.partition("{")[0])
    assert " modified (" in built.text
    assert {"fifo", "las"} <= {line.partition(",")[0] for line in built.text.splitlines()}
    assert "afs" in built.missing
    assert not {"fifo", "las", "elastic_dp"} & set(built.missing)
    nothing = table_from_records("shared-16", tmp_path / "none", SHARED[1:])
    assert nothing.text == ""
    assert {"fifo", "las"} <= set(nothing.missing)


def test_tasks_without_records_have_no_table(tmp_path, capsys):
    title = composed("task=calm-64").task
    title = f"calm-64-v{title.version}"
    assert recorded_tables(tmp_path, ["calm-64"]) == {"calm-64": ""}
    assert capsys.readouterr().out == f"{title}: has no records\n"
    with pytest.raises(ChoiceError, match="there is no full-65; tasks are adaptive-40"):
        recorded_tables(tmp_path, ["calm-64", "full-65"])


def test_the_bounds_of_a_task_are_read_and_damage_is_named(tmp_path):
    about = {"task": {"name": "calm-64", "version": 2, "modified": False}}
    assert read_bounds(about, tmp_path) == read_bounds({}, tmp_path) == {}
    path = tmp_path / "calm-64-v2-bounds.json"
    path.write_text('{"ab": 3.5}')
    assert read_bounds(about, tmp_path) == {"ab": 3.5}
    path.write_text("[1]")
    with pytest.raises(MurmurationError, match="calm-64-v2-bounds.json: is damaged .*; run scripts/tasks.py --tables"):
        read_bounds(about, tmp_path)


def test_the_tables_agree_with_the_records():
    assert list(RECORDS_FOLDER.glob(f"*{TABLE_SUFFIX}"))
    assert find_disagreements() == []


def test_a_table_of_another_problem_or_of_other_records_is_seen(tmp_path):
    task = composed("task=shared-16").task
    label = f"shared-16-v{task.version} ({task.hashes[task.version]})"

    def wrong(table):
        (tmp_path / f"shared-16{TABLE_SUFFIX}").write_text(table)
        return find_disagreements(tmp_path)

    assert find_disagreements(tmp_path) == []
    assert "is not of shared-16-v" in wrong("# old")[0]
    assert "is not that of the records" in wrong(f"# {label}: 100 episodes")[0]
    write_member(tmp_path / f"shared-16-v{task.version}.zip", "fifo", "a")
    digest = DIGEST.format(digest=digest_records(tmp_path / f"shared-16-v{task.version}.zip"))
    assert wrong(f"{digest}# {label}: 100 episodes") == []


def test_shipped_records_are_of_the_options_that_schedulers_have_now():
    """Else a command of the docs that compares with recorded results leaves them out."""
    recorded = {}
    for archive in sorted(RECORDS_FOLDER.glob("*.zip")):
        with zipfile.ZipFile(archive) as file:
            for name in list_recorded(archive):
                with file.open(f"{name}{MEMBER_SUFFIX}") as lines:
                    recorded[archive.name, name] = json.loads(lines.readline())["configuration"]
    library = library_configurations(sorted({name for _, name in recorded}))
    assert {
        key: differences(found, library[key[1]])
        for key, found in recorded.items()
        if with_later_options(found, library[key[1]]) != library[key[1]]
    } == {}


def test_options_that_were_added_later_count_only_at_their_defaults():
    target = "baselines.packing.Packing"
    inner = {"_target_": "baselines.Fifo"}
    defaults = configuration_of(Component("scheduler", {"_target_": target, "inner": inner}))
    assert with_later_options({"_target_": target, "inner": inner}, defaults) == defaults
    other = {**defaults, "inner": {**defaults["inner"], "backfill": "skip"}}
    assert with_later_options({"_target_": target, "inner": inner}, other) != other
    assert with_later_options({"_target_": "baselines.Srtf"}, defaults) == {"_target_": "baselines.Srtf"}
