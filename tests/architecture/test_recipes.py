"""The recipes of `docs/how_to` are complete, and their code does what they say."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import agents.methods
import agents.networks
import baselines
import envs.episodes
import envs.performance
import envs.workloads.readers
from agents.networks import check_option_network
from agents.training import Trainer
from envs.episodes import Elapsed
from envs.options import OptionSpec
from envs.performance import default_model
from envs.scheduling import Scheduler
from envs.types import Configuration, JobFacts, KnownCurves, PerformanceError, ThroughputSamples
from murmuration.config.building import Component, build_object
from tests.unit.agents.test_evolution_training import Quiet, problem_of, trainer

FILE = re.compile(r"`(?P<path>[\w/]+\.(?:py|yaml))`:\n\n```(?:python|yaml)\n(?P<text>.*?)```", re.DOTALL)
CHANGE = re.compile(r"`(?P<path>[\w/]+\.py)`:\n(?P<blocks>(?:\n {4}```(?:diff|python)\n.*?\n {4}```\n)+)", re.DOTALL)
BLOCK = re.compile(r" {4}```(?P<language>diff|python)\n(?P<text>.*?\n) {4}```", re.DOTALL)
LIMIT = 40  # lines of one file; a recipe is short
METHOD = 75  # lines of a method, which is settings and an algorithm
PACKAGES = (agents.methods, agents.networks, baselines, envs.episodes, envs.performance, envs.workloads.readers)


@pytest.fixture(scope="module")
def recipes(repository):
    """Text by path, such as "conf/scheduler/largest_first.yaml"."""
    pages = [page.read_text(encoding="utf-8") for page in sorted((repository / "docs" / "how_to").glob("*.md"))]
    return {match["path"]: match["text"] for page in pages for match in FILE.finditer(page)}


@pytest.fixture
def build(recipes, repository, tmp_path, monkeypatch):
    """Save the recipes' files in a folder and build what a YAML of theirs describes."""
    for path, text in recipes.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    for package in PACKAGES:
        monkeypatch.setattr(
            package, "__path__", [*package.__path__, str(tmp_path / package.__name__.replace(".", "/"))]
        )
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def make(path, **given):
        return build_object(Component("recipe", yaml.safe_load(recipes[path])), **given)

    importlib.invalidate_caches()
    yield make
    for name in set(sys.modules) - before:
        if f"{name.replace('.', '/')}.py" in recipes:
            del sys.modules[name]


def dedented(text):
    """A block of a numbered step without the indentation of the step."""
    return "".join(line[4:] or "\n" for line in text.splitlines(keepends=True))


def changed(text, block):
    """A file's text after a block of a recipe, which removes and adds lines or, without marks, is appended."""
    if block["language"] == "python":
        return f"{text}\n\n{dedented(block['text'])}"
    lines = dedented(block["text"]).splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
    assert text.count(old) == 1, f"the recipe changes lines that are not there, or are there twice:\n{old}"
    return text.replace(old, new)


def targets(content):
    """Import paths that a configuration names, at any depth."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in ("_target_", "target"):
                yield value
            else:
                yield from targets(value)


def test_there_is_a_recipe_for_each_part(recipes):
    groups = {PurePosixPath(path).parent.name for path in recipes if path.endswith(".yaml")}
    assert groups == {
        *("scheduler", "agent", "trainer", "workload", "cluster", "performance", "estimator", "predictor"),
        *("reconfiguration", "env"),
    }


def test_recipes_are_short_and_belong_to_folders_that_exist(recipes, repository):
    long = {path for path, text in recipes.items() if len(text.splitlines()) > LIMIT}
    assert long == {"agents/methods/hill_climbing.py"}
    assert len(recipes["agents/methods/hill_climbing.py"].splitlines()) <= METHOD
    assert {path for path in recipes if not (repository / path).parent.is_dir()} == set()


def test_recipes_do_not_overwrite_a_file_of_the_clone(recipes, repository):
    """A file with the text of the recipe was saved by somebody who followed it."""
    there = {path: repository / path for path in recipes if (repository / path).exists()}
    assert {path for path, file in there.items() if file.read_text(encoding="utf-8") != recipes[path]} == set()


def test_code_is_documented_and_parses(recipes):
    for path, text in recipes.items():
        if path.endswith(".py"):
            tree = ast.parse(text, path)
            assert ast.get_docstring(tree) or path.startswith("tests/"), path


def test_what_a_yaml_builds_is_in_the_recipe_or_in_the_clone(recipes, repository):
    for path, text in recipes.items():
        if not path.endswith(".yaml"):
            continue
        found = list(targets(yaml.safe_load(text)))
        assert found, path
        for target in found:
            module, _, name = target.rpartition(".")
            file = module.replace(".", "/")
            if f"{file}.py" in recipes:
                assert name in {getattr(node, "name", "") for node in ast.parse(recipes[f"{file}.py"]).body}, target
            else:
                assert (repository / file).is_dir() or (repository / f"{file}.py").exists(), target


def test_a_recipe_opens_with_what_list_shows(recipes):
    """`scripts/list.py` describes a choice by the first comment of its YAML."""
    assert {path for path, text in recipes.items() if path.endswith(".yaml") and not text.startswith("# ")} == set()


def test_the_scheduler_has_the_schedule_of_its_test(recipes, build):
    assert isinstance(build("conf/scheduler/largest_first.yaml"), Scheduler)
    names: dict[str, Any] = {}
    exec(recipes["tests/golden/test_largest_first.py"], names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()


def test_the_network_scores_options(build):
    spec = OptionSpec()
    network = build("conf/agent/pooled.yaml").build(spec)
    check_option_network(network, spec)
    assert isinstance(network, torch.nn.Module)


def test_the_bidding_network_starts_as_the_market_and_keeps_the_rule(build, tmp_path):
    """Evolution strategies train it: each of its layers has the episodes first."""
    problem = problem_of(blueprint=build("conf/agent/plain_bids.yaml"))
    problem.check()
    state = trainer(tmp_path / "run", 3, problem=problem).run()
    assert all(figures["jct"] == 0.0 for figures in state.validation["0"].values())
    trained = problem.load(tmp_path / "run" / "checkpoints" / "last").state_dict()
    assert trained["out.weight"].abs().max() > 0


def test_a_run_of_the_method_goes_on_where_it_stopped(build, tmp_path):
    settings = build("conf/trainer/hill_climbing.yaml")
    settings = replace(
        settings, method=replace(settings.method, num_envs=3, sigma=1.0), validate_every=1, num_validation=2
    )

    def run(name, iterations):
        length = replace(settings, iterations=iterations, picture_every=0)
        return Trainer(problem_of(), length, {}, tmp_path / name, 0, Quiet()).run()

    whole = run("whole", 4)
    run("parts", 2)
    assert run("parts", 4).validation == whole.validation
    assert len({figures["task 0"]["jct"] for figures in whole.validation.values()}) > 1, "it never kept a change"


def test_the_trace_reader_counts_the_malformed_row(build, repository):
    page = (repository / "docs" / "how_to" / "trace_reader.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"printf '(submitted,.*?)' > jobs.csv", page)
    file = Path("jobs.csv")
    file.write_text(text.replace("\\n", "\n"), encoding="utf-8")
    cluster = SimpleNamespace(num_gpus=64)
    reader = build("conf/workload/minutes.yaml", cluster=cluster, performance=default_model()).reader
    jobs, report = reader.read(file)
    assert jobs["submit_time"].tolist() == [0, 60, 120]
    assert jobs["duration"].tolist() == [6000, 3600, 600]
    assert "4 rows read, 3 kept; bad 1 (minutes must be a finite number), first at row 5" in report.summary()


def test_the_cluster_has_its_gpus(build):
    cluster = build("conf/cluster/mixed_24.yaml")
    assert (cluster.num_nodes, cluster.gpus_by_type) == (4, {"V100": 16, "P100": 8})


def test_the_performance_model_follows_its_law(build):
    """With a serial tenth, two GPUs need 0.1 + 0.9 / 2 of the time."""
    model = build("conf/performance/amdahl.yaml")
    assert model.throughput("any", Configuration("V100", 1)) == 1.0
    assert model.throughput("any", Configuration("V100", 2)) == pytest.approx(1 / 0.55)
    with pytest.raises(PerformanceError, match="model 'other' is unknown here; known: any"):
        model.throughput("other", Configuration("V100", 1))


def test_the_estimator_scales_linearly(build):
    """Two GPUs that were seen at 10 samples/s make four GPUs of any type 20 samples/s."""
    known = KnownCurves(np.zeros((0, 2, 5, 1)), np.ones((2, 5, 1), bool), np.array([1]))
    samples = ThroughputSamples(np.array([[0, 2, 0]]), np.array([10.0]), np.array([0.1]), np.zeros(1, bool))
    found = build("conf/estimator/linear_scaling.yaml").fit(known).estimate(samples)
    assert found.throughput[:, 4, 0] == pytest.approx([20.0, 20.0])
    assert (found.spread == 0.5).all()


def test_the_predictor_goes_by_the_number_of_gpus(build):
    """Jobs of one GPU took 10 s, those of two 20 s and 40 s; of four none is known."""
    texts = [np.full(3, "")] * 4
    past = JobFacts._make([np.zeros(3), np.array([1, 2, 2]), *texts, np.array([10.0, 20.0, 40.0])])
    predictor = build("conf/predictor/by_size.yaml")
    predictor.train([past])
    found = predictor.predict(past._replace(num_gpus=np.array([1, 2, 4])), past.rows(np.zeros(0, int)))
    assert [sorted(set(row.tolist())) for row in found] == [[10.0], [20.0, 40.0], [10.0, 20.0, 40.0]]


def test_the_reconfiguration_cost_is_flat(build):
    cost = build("conf/reconfiguration/flat.yaml")
    assert (cost.seconds("resnet50", first=True), cost.seconds("resnet50")) == (0.0, 300.0)


def test_the_reward_charges_for_jobs_and_gpus(build):
    """Two episodes: 10 job-seconds on no GPU; 5 job-seconds and 20 GPU-seconds at a tenth of a second each."""
    reward = build("conf/env/priced.yaml").reward
    assert build("conf/env/priced_bids.yaml").reward == reward
    elapsed = Elapsed(
        seconds=np.array([2.0, 2.0]), job_seconds=np.array([10.0, 5.0]), busy_seconds=np.array([0.0, 20.0])
    )
    assert reward(elapsed).tolist() == [-10.0, -7.0]


def test_the_rule_of_the_world_holds_on_both_engines(repository, tmp_path):
    """Make the changes in a copy and run the recipe's test there, without compiling."""
    rule = (repository / "docs" / "how_to" / "rule.md").read_text(encoding="utf-8")
    for folder in ("envs", "tests", "baselines"):
        shutil.copytree(repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    steps = list(CHANGE.finditer(rule))
    assert len(steps) == 8
    for step in steps:
        file = tmp_path / step["path"]
        text = file.read_text(encoding="utf-8")
        for block in BLOCK.finditer(step["blocks"]):
            text = changed(text, block)
        file.write_text(text, encoding="utf-8")
    wanted = f"{tmp_path}/tests/unit/simulation/test_rules.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", wanted, "-k", "spans_nodes_starts_later"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{repository}/scripts", "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
