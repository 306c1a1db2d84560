"""Scores, feedback, stages and the folder of a search; cheating is in tests/reliability/test_cheating_programs.py."""

import importlib.util
import json
import math
import random
import sys
from typing import Any

import numpy as np
import pytest
import yaml

from murmuration.config.errors import ChoiceError
from murmuration.programs.evaluator import FAILED, STAGES, ProgramEvaluator, Reference, read_program
from murmuration.programs.folder import INITIAL, write_search
from recipes import program_search

TASK = ["none", "cluster=small_16", "workload.num_jobs=12", "workload.num_evaluation=3"]


@pytest.fixture(scope="module")
def evaluator():
    found = ProgramEvaluator(TASK, seed=7)
    yield found
    found.close()


@pytest.fixture(scope="module")
def first(evaluator):
    return evaluator.evaluate(INITIAL, episodes=2)


def test_the_score_is_zero_for_srtf_and_one_at_the_bound():
    """Between them it is the logarithm's share: with a bound of 100 s and SRTF at 400 s, 200 s are half the way."""
    reference = Reference(np.zeros(0), 100.0, 400.0)
    assert [reference.score(jct) for jct in (400.0, 100.0, 200.0, 1600.0)] == pytest.approx([0, 1, 0.5, -1])


def test_srtf_is_above_the_bound(evaluator):
    references = [evaluator._reference(i, each) for i, each in enumerate(evaluator._first(2))]
    assert all(0 < each.bound < each.srtf for each in references)


def test_the_result_has_figures_and_feedback(first):
    assert json.loads(json.dumps(first)) == first
    assert first["workloads"] == 2
    assert first["jobs"] == 24
    assert first["ratio_to_bound"] >= 1
    words = first["artifacts"]
    assert words["where_time_is_lost"].startswith(f"Mean JCT {first['mean_jct'] / 3600:.2f} h = ")
    assert len(words["worst_jobs"].splitlines()) == 5


def test_the_parts_of_the_mean_jct_add_up(first):
    parts = first["artifacts"]["where_time_is_lost"].partition(" = ")[2].split(";")
    hours = [float(part.split()[0]) for part in parts if "h (" in part]
    assert sum(hours) == pytest.approx(first["mean_jct"] / 3600, abs=0.02)


def test_another_seed_plays_other_workloads_and_the_same_one_the_same(evaluator, first):
    again = ProgramEvaluator.__new__(ProgramEvaluator)
    vars(again).update(vars(evaluator), seed=8, _workloads=[])
    other, same = again._first(1)[0], evaluator._first(1)[0]
    assert not np.array_equal(other.jobs["work"], same.jobs["work"])
    assert evaluator.evaluate(INITIAL, episodes=2)["mean_jct"] == first["mean_jct"]


def test_a_stage_cuts_a_workload_that_has_more_jobs(evaluator, monkeypatch):
    monkeypatch.setitem(STAGES, 1, 7)
    (cut,) = evaluator._chosen(1)
    assert len(cut) == 7
    assert cut.measured.any()
    assert sum(map(len, evaluator._chosen(2))) <= STAGES[2]


def test_fixed_workloads_are_those_of_the_split(evaluator):
    fixed = ProgramEvaluator.__new__(ProgramEvaluator)
    vars(fixed).update(vars(evaluator), seed=None, split="test")
    assert [each.name for each in fixed._first(2)] == [each.name for each in evaluator._task.workloads("test")[:2]]
    with pytest.raises(ChoiceError, match="has 3"):
        fixed._first(4)


def test_hidden_throughputs_are_refused_in_one_line():
    with pytest.raises(ChoiceError, match="information.throughput=exact"):
        ProgramEvaluator([*TASK, "scenario.information.throughput=observed", "scenario.batch_sizes=usual"])


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "p.py").write_bytes(b"\xff\xfe\x00")
    for name in ("p.py", "none.py"):
        with pytest.raises(ChoiceError, match="give a file of Python"):
            read_program(tmp_path / name)


def test_the_written_folder_evaluates_its_program(tmp_path):
    """As OpenEvolve does: the file is loaded anew for each evaluation, and answers with numbers and texts."""
    folder = tmp_path / "search"
    assert "openevolve-run" in write_search(folder, TASK)[0]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert set(config["prompt"]) <= {"system_message"}  # what SkyDiscover's classes take, which refuse other keys
    assert set(config["evaluator"]) <= {"timeout", "max_retries", "cascade_evaluation", "cascade_thresholds"}
    with pytest.raises(ChoiceError, match="name a new folder"):
        write_search(folder, TASK)
    found = []
    for _ in range(2):
        spec = importlib.util.spec_from_file_location("evaluation_module", folder / "evaluator.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(module.evaluate_stage1(str(folder / "initial_program.py")))
    kept = vars(sys.modules.pop("_murmuration_search"))
    processes = [each for each in kept.values() if hasattr(each, "stdin")]
    processes[0].stdin.close()
    processes[0].wait(30)
    assert len(processes) == 1
    assert found[0]["combined_score"] == found[1]["combined_score"] > FAILED
    assert all(isinstance(value, float | int) for name, value in found[0].items() if name != "artifacts")


def test_the_search_begins_with_shortest_first(evaluator, first):
    started = program_search.write_program((program_search.START, "left"))
    assert evaluator.evaluate(started, episodes=2)["mean_jct"] == first["mean_jct"]


def test_mutations_are_programs():
    rng, candidate = random.Random(0), (program_search.START, "left")
    for _ in range(200):
        candidate = program_search.mutate(rng, candidate, (program_search.START, "left"))
        compile(program_search.write_program(candidate), "candidate", "exec")
    assert candidate[1] != "left"


def test_the_search_never_ends_behind_its_start():
    """On an evaluator that likes large constants, each line of the curve is above the one before."""

    class Likes:
        def evaluate(self, text, stage):
            constants = next(line for line in text.splitlines() if line.startswith("ELASTIC, ")).partition("= ")[2]
            score = sum(math.log1p(float(each)) for each in constants.split(", "))
            return {"combined_score": score, "cpu_seconds": 1.0, "program_cpu_seconds": 0.0, "mean_jct": 3600.0}

    curve: list[str] = []
    likes: Any = Likes()
    program_search.search(likes, 3, random.Random(1), curve.append)
    scores = [float(line.partition("score")[2].split(",")[0].split()[0]) for line in curve]
    assert scores[:-1] == sorted(scores[:-1])
    assert len(scores) > 4
    assert scores[-1] == scores[-2]
