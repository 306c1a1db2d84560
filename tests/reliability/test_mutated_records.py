"""Records that were changed after they were written are refused in one line; those that were played are not.

A mutation leaves the checksum as it was, or computes it anew, as a broken tool could. The second kind is refused where
the record then says what cannot be.
"""

import copy
import dataclasses
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from envs.evaluation import compare_schedulers
from envs.evaluation.archive import LARGEST, read_member
from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.record import (
    RecordHeader,
    describe_episode,
    ideal_durations,
    read_record,
    restore_episode,
    write_lines,
    write_record,
)
from envs.evaluation.record_checks import EpisodeCheck
from envs.evaluation.record_schema import DIGITS, JOB_DIGITS, OF_EACH, RecordError, check_episode
from envs.metrics import figures_of_jobs
from envs.performance import IdealModel
from envs.simulation import RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterError, MurmurationError
from tests.conformance.random_worlds import random_world
from tests.conformance.test_schedulers import SCHEDULERS
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, workloads
from tests.unit.simulation.plays import Chance

WORKLOADS = workloads(5)
SETUPS = {
    "all end": Setup(CLUSTER, IdealModel(), Scenario(restart_delay=2.0, batch_sizes="usual")),
    "horizon": Setup(CLUSTER, IdealModel(), Scenario(restart_delay=2.0, batch_sizes="usual", horizon=150.0)),
}
HEADER = RecordHeader("s", "toy-v1", "0123456789ab", {"_target_": "a.B", "size": 1.5}, 5, "0", sources="ba9876543210")
UNKNOWABLE = {  # what no other value of a record tells; all of them have a range
    "num_rounds",
    "decision_seconds",
    "mean_fairness",
    "worst_fairness",
    "jain_index",
    "utilisation",
    "fragmentation",
    "mean_jobs_in_system",
    "gpu_hours",
    "preemptions",
    "restarts",
    "queue_share",
}
Lines = list[dict[str, Any]]
FEW, MANY = 50, pytest.param(1500, marks=pytest.mark.exhaustive)  # changes


@cache
def played(world: str) -> list[EpisodeFigures]:
    """The figures of a scheduler that preempts jobs."""
    runs = compare_schedulers({"s": Preempting()}, WORKLOADS, SETUPS[world]).runs["s"]
    found = [EpisodeFigures.of(run) for run in runs if isinstance(run, RunResult)]
    return [dataclasses.replace(each, decision_seconds=0.25) for each in found]  # the same in every run of the tests


@pytest.fixture(params=sorted(SETUPS))
def world(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def lines(world: str, tmp_path: Any) -> Lines:
    """The plain values of a record as it is written."""
    path = tmp_path / "toy-v1.zip"
    write_record(path, HEADER, played(world))
    return [json.loads(line) for line in read_member(path, "s").splitlines()]


def use(path: Any, world: str) -> None:
    """Take a record as a comparison does; raise the error by which it is refused."""
    record = read_record(path, "s")
    setup = SETUPS[world]
    figures = record.figures(WORKLOADS, ideal_durations(WORKLOADS, setup), setup.scenario)
    assert len(figures) == len(WORKLOADS)
    found = compare_schedulers({"fifo": InOrder()}, WORKLOADS[:5], setup, recorded={"s": figures})
    if "s" not in found.runs:
        raise MurmurationError(found.inapplicable["s"])


def refusal(path: Any, world: str) -> str:
    """Return why a record is refused; empty if it is used."""
    try:
        use(path, world)
    except MurmurationError as error:
        message = str(error)
        return message if message.isprintable() and len(message) < 400 else f"unprintable: {message!r}"
    return ""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within nested ones."""
    if at:
        yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*at, key))


def change(lines: Lines, at: tuple[Any, ...], to: Any) -> Lines:
    """Return the lines with another value at a place."""
    changed = copy.deepcopy(lines)
    holder: Any = changed
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = to
    return changed


def drop(lines: Lines, at: tuple[Any, ...]) -> Lines:
    """Return the lines without a value."""
    changed = copy.deepcopy(lines)
    holder: Any = changed
    for key in at[:-1]:
        holder = holder[key]
    del holder[at[-1]]
    return changed


def write_text(path: Any, lines: Lines) -> None:
    """Write lines with whatever checksum they have."""
    pack(path, "".join(json.dumps(line) + "\n" for line in lines).encode())


def pack(path: Any, content: bytes) -> None:
    """Write an archive with one record of any content."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2, compresslevel=1) as file:
        file.writestr("s.jsonl", content)


NO_NUMBERS: list[Any] = [
    None,
    "7",
    "nan",
    "inf",
    True,
    [],
    {},
    -1,
    -0.5,
    1e300,
    float("nan"),
    float("inf"),
    "a\nb",
    10**400,
]
FACTORS = (1 + 1e-9, 1.001, 0.98, 1.03, 0.5, 2.0, 0.001, 1000.0)


def mutations(lines: Lines, rng: np.random.Generator, count: int) -> Iterator[tuple[tuple[Any, ...], Any, Lines]]:
    """Yield records of which one value is another one, or is missing, with its place."""
    every = [at for at in places(lines) if at[-1] != "checksum"]
    numbers = [at for at in every if isinstance(value := value_at(lines, at), int | float) and value]
    for number in range(count):
        if number % 2:
            at, factor = numbers[rng.integers(len(numbers))], FACTORS[rng.integers(len(FACTORS))]
            digits = JOB_DIGITS if len(at) == 3 and at[1] in OF_EACH else DIGITS
            yield at, factor, change(lines, at, float(f"{value_at(lines, at) * factor:.{digits}g}"))
        else:
            at, to = every[rng.integers(len(every))], rng.integers(len(NO_NUMBERS) + 1)
            if to == len(NO_NUMBERS):
                yield at, "dropped", drop(lines, at)
            else:
                yield at, NO_NUMBERS[to], change(lines, at, NO_NUMBERS[to])


def value_at(lines: Any, at: tuple[Any, ...]) -> Any:
    """The value at a place."""
    for key in at:
        lines = lines[key]
    return lines


def test_what_is_written_is_used(world: str, lines: Lines, tmp_path: Any) -> None:
    assert refusal(tmp_path / "toy-v1.zip", world) == ""
    write_text(tmp_path / "toy-v1.zip", lines)  # another layout of the same values
    assert refusal(tmp_path / "toy-v1.zip", world) == ""
    unfinished = sum(figures.own.num_unfinished for figures in played(world))
    assert (unfinished > 0) == (world == "horizon")


@pytest.mark.parametrize("count", [FEW, MANY])
def test_every_changed_value_is_refused(count: int, world: str, lines: Lines, tmp_path: Any) -> None:
    """The checksum sees what the other checks do not; both say so in one line."""
    path, found = tmp_path / "toy-v1.zip", Counter[str]()
    for at, to, changed in mutations(lines, np.random.default_rng(1), count):
        if changed == lines:  # rounded to what it was
            continue
        write_text(path, changed)
        said = refusal(path, world)
        assert said, f"{at} became {to!r}"
        assert not said.startswith("unprintable"), said
        found["checksum" if "its checksum is of other content" in said else "schema"] += 1
    print(f"{world}: {found.total()} changed values, all refused: {dict(found)}")
    assert found.total() >= 0.8 * count
    assert min(found["checksum"], found["schema"]) > count / 8


@pytest.mark.parametrize("count", [FEW, MANY])
def test_every_changed_byte_is_refused_or_changes_nothing(count: int, world: str, lines: Lines, tmp_path: Any) -> None:
    path, rng = tmp_path / "toy-v1.zip", np.random.default_rng(2)
    packed, found = path.read_bytes(), Counter[str]()
    text = read_member(path, "s").encode()
    expected = read_record(path, "s")
    for number in range(count):
        whole = bytearray(packed if number % 3 else text)
        at = int(rng.integers(len(whole)))
        if number % 3 == 1:
            del whole[at:]
        else:
            whole[at] ^= 1 << int(rng.integers(8))
        if number % 3:
            path.write_bytes(bytes(whole))
        else:
            pack(path, bytes(whole))
        try:
            again = read_record(path, "s")
        except MurmurationError:
            found["refused"] += 1
            continue
        assert again == expected, at
        found["same values"] += 1
    print(f"{world}: {count} changed files: {dict(found)}")
    assert found["refused"] > 0.88 * count


@pytest.mark.parametrize("count", [FEW, MANY])
def test_with_a_new_checksum_only_what_nothing_tells_can_be_changed(
    count: int, world: str, lines: Lines, tmp_path: Any
) -> None:
    """Figures of a job may change within the rounding of their mean; the mean and all that is shown of it may not."""
    path, found = tmp_path / "toy-v1.zip", Counter[str]()
    for at, to, changed in mutations(lines, np.random.default_rng(3), count):
        if at[0] == 0 or len(changed) != len(lines) or changed == lines:
            continue  # a header with a new checksum says what it says
        try:
            write_lines(path, "s", changed)
        except (ValueError, OverflowError):  # no JSON
            continue
        if refusal(path, world):
            found["refused"] += 1
            continue
        name = next(key for key in reversed(at) if isinstance(key, str))
        if name in OF_EACH and lines[at[0]]["jct"][at[2]] is None:
            found["of an unfinished job"] += 1
        elif name in OF_EACH and isinstance(to, float):
            before, after = value_at(lines, at), value_at(changed, at)
            mean = np.mean([each for each in lines[at[0]][name] if each is not None])
            assert abs(after - before) < 0.006 * mean * len(lines[at[0]]["jct"]), (at, before, after)
            found["figure of a job within rounding of the mean"] += 1
        elif isinstance(to, float) and 0.99 < to < 1.01 and name not in UNKNOWABLE:
            found["metric within rounding of its jcts"] += 1
        else:
            assert name in UNKNOWABLE, f"{at} became {to!r}"
            found["unknowable"] += 1
    print(f"{world}: {found.total()} changed values with a new checksum: {dict(found)}")
    assert found["refused"] > 0.45 * count


def consistent(lines: Lines, jct: Callable[[dict[str, Any], int], list[float | None]]) -> Lines:
    """Return the lines with other JCTs, and with all metrics that follow from them as they would be."""
    changed = copy.deepcopy(lines)
    for line, workload, figures in zip(changed[1:], WORKLOADS, played("all end"), strict=True):
        line["jct"] = jct(line, len(line["jct"]))
        line["wait"] = line["time_to_start"] = [0] * len(line["jct"])
        ideal = ideal_durations([workload], SETUPS["all end"])[0]
        rows = restore_episode(line, workload, ideal).jobs
        finish, last = rows["finish_time"], workload.jobs["submit_time"][-1]
        own = {**dataclasses.asdict(figures.own), **figures_of_jobs(rows, rows["rho"], rows["wait"])}
        own["mean_jct_censored"] = own["mean_jct"]
        own.update(mean_fairness=own["mean_slowdown"], worst_fairness=own["mean_slowdown"], jain_index=1.0)
        own["makespan"] = finish.max() - rows["submit_time"].min()
        line["summary"] = {
            name: float(f"{each:.9g}") if isinstance(each, float) else each for name, each in own.items()
        }
        line["num_late"] = int((finish > last).sum())
        line["stay"] = float(f"{(finish - rows['submit_time']).sum():.9g}")
        line["beyond"] = float(f"{np.maximum(finish - last, 0.0).sum():.9g}")
    return changed


@pytest.mark.parametrize("world", ["all end"], indirect=True)
def test_jcts_that_agree_with_all_else_are_held_to_the_bounds(world: str, lines: Lines, tmp_path: Any) -> None:
    path = tmp_path / "toy-v1.zip"
    write_lines(path, "s", consistent(lines, lambda line, count: [float(f"{2 * each:.3g}") for each in line["jct"]]))
    assert refusal(path, world) == "", "the change is consistent"
    write_lines(path, "s", consistent(lines, lambda line, count: [1.0] * count))
    assert "JCT of 1 s for job" in refusal(path, world)
    assert "takes alone" in refusal(path, world)
    write_lines(path, "s", consistent(lines, lambda line, count: [1e-9] * count))
    assert "is below" in refusal(path, world)
    alone = {
        id(line): ideal_durations([work], SETUPS[world])[0] for line, work in zip(lines[1:], WORKLOADS, strict=True)
    }
    ideals = iter(alone.values())
    write_lines(path, "s", consistent(lines, lambda line, count: [float(f"{each:.3g}") for each in next(ideals)]))
    assert "below the lower bound" in refusal(path, world), "all jobs run alone at once"


def test_wrong_orders_and_numbers_of_episodes_are_refused(world: str, lines: Lines, tmp_path: Any) -> None:
    path = tmp_path / "toy-v1.zip"
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    twice = [lines[0], lines[1], lines[1], *lines[3:]]
    renamed = change(twice, (2, "workload"), lines[2]["workload"])
    for changed in (swapped, twice, renamed, lines[:-1], [*lines, lines[-1]], lines[1:], lines[:1], []):
        if changed and "configuration" in changed[0]:
            write_lines(path, "s", changed)
        else:
            write_text(path, changed)
        assert refusal(path, world)
    reverse = change(lines, (1, "jct"), lines[1]["jct"][::-1])
    write_lines(path, "s", reverse)
    assert refusal(path, world), "each job has another submission, so the makespan or the ends are others"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"a": 1, "a": 2}',
        b'{"format": NaN}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b"null",
        b"[]\n[]",
        b'"\\ud800"',
        b" " * (LARGEST + 1),
    ],
    ids=range(10),
)
def test_files_of_other_content_are_refused_in_one_line(tmp_path: Any, content: bytes) -> None:
    path = tmp_path / "toy-v1.zip"
    pack(path, content)
    for whole in (path.read_bytes(), content[:1000]):
        path.write_bytes(whole)
        with pytest.raises(MurmurationError, match="is no (record|archive)") as error:
            read_record(path, "s")
        assert str(error.value).isprintable()
    path.unlink()
    path.mkdir()
    with pytest.raises(MurmurationError, match="is no (record|archive)"):
        read_record(path, "s")


@pytest.mark.parametrize("name", ["chance", "starling", "rubick"])
def test_what_was_played_is_never_refused(name: str) -> None:
    """Random worlds with all rules: horizons, failures, stalls, chosen batch sizes, named plans and cores."""
    checked = Counter[str]()
    for seed in range(40):
        world = random_world(seed)
        scheduler = Chance(disturb=0.3) if name == "chance" else SCHEDULERS[name]
        try:
            run = run_episode(scheduler, Simulator(world.workload, world.setup, world.seed))
        except (ClusterError, MurmurationError):
            continue
        figures = EpisodeFigures.of(run)
        values = json.loads(json.dumps(describe_episode(figures), allow_nan=False))
        check_episode(values, 0)
        again = restore_episode(values, world.workload, ideal_durations([world.workload], world.setup)[0])
        try:
            EpisodeCheck(again, world.setup.scenario).run()
        except RecordError as error:
            raise AssertionError(f"world {seed}: {error}") from error
        checked["unfinished" if figures.own.num_unfinished else "finished"] += 1
    print(f"{name}: {dict(checked)}")
    assert checked.total() >= 20
