"""Hundreds of changed run folders and policies: each loads or is refused in one line, and does nothing else."""

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from agents.networks import Blueprint
from agents.policies.description import DESCRIPTION
from agents.policies.options.checkpoint import OptionCheckpoint
from envs.options import OptionRules, OptionSpec
from envs.types import as_line
from murmuration.config.arguments import compose_options
from murmuration.config.building import build_object, import_target
from murmuration.config.choices import CONF
from murmuration.config.describe import as_component, describe_problem, describe_schedulers
from murmuration.config.errors import RunFailedError, explain_error
from murmuration.config.inputs import build_inputs, build_schedulers
from murmuration.config.provenance import PROVENANCE, SAVED, changed_since, read_provenance, resolve_config
from murmuration.config.recall import find_again, recall_setup, recall_whole
from murmuration.config.registry import project_targets, registered
from murmuration.runs.policies import build_market, load_policy
from murmuration.runs.repeat import report_differences
from tests.reliability.mutation import CANARY, MARK, Guard, as_yaml, mutate, mutate_text, plant

FEW, MANY = 75, pytest.param(1300, marks=pytest.mark.exhaustive)  # changed files
TRACE = ["task=none", "workload=csv", "workload.path=jobs.csv", "scenario=full", "+failures@scenario.failures=rsc1"]
RUNS = {
    "compare": ("compare", ["task=shared-16"], "[fifo,starling]"),
    "train": (
        "train",
        ["task=shared-16", "env=bidding", "agent=bidding", "market=starling", "trainer=evolution"],
        "[fifo]",
    ),
    "bidding": ("train", ["experiment=bidding_mix"], "[]"),
    "trace": ("compare", TRACE, "[tiresias]"),
}
SHIPPED = ("anywhere", "bids-64", "bids-mix", "bids-philly", "bids-unknown", "bids-users")
FIGURES = {"schedulers": [{"scheduler": "fifo", "mean_jct": 5.0, "makespan": 9}], "seed": 0}
BEGAN = {"script": "evaluate", "packages": {"numpy": "2"}, "git": None, "checkpoint": {"/no/such/policy.json": "0"}}


@pytest.fixture(scope="module")
def guard():
    """Everything that an honest folder may name is imported before, so that any further import is an attack's."""
    for target in project_targets(CONF):
        import_target("registry", target)
    return Guard()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a module that must not be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    plant(tmp_path)
    return tmp_path


@pytest.fixture
def evaluated():
    """The configuration of `scripts/evaluate.py` within a run of Hydra."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        HydraConfig.instance().set_config(compose("evaluate", return_hydra_config=True))
        cfg = compose("evaluate")
        cfg.checkpoint = ""
        yield cfg
        HydraConfig.instance().cfg = None


@pytest.fixture
def honest(evaluated):
    """The configurations of several runs, as plain data."""
    return {
        name: OmegaConf.to_container(resolve_config(compose_options(script, options, schedulers)))
        for name, (script, options, schedulers) in RUNS.items()
    }


def build_all(cfg, trusted):
    """Build all that a run is made of; no episode is drawn or played. It must trust no further classes."""
    assert registered(cfg) <= trusted
    build_inputs(describe_problem(cfg))
    build_schedulers(describe_schedulers(cfg))
    for name in ("env", "agent", "trainer", "market"):
        if cfg.get(name):
            build_object(as_component(cfg[name]))


def attempt(guard: Guard, outcomes: Counter[str], call: Callable[[], Any]) -> list[str]:
    """Call a reader, which may return or raise what scripts print as one line; return what else happened."""
    guard.seen.clear()
    with guard.watching():
        try:
            call()
            outcomes["accepted"] += 1
        except Exception as error:
            outcomes["refused"] += 1
            message = as_line(str(error)) if isinstance(error, RunFailedError) else explain_error(error)
            if message is None or not message.isprintable() or len(message) > 3000:
                guard.seen.append(f"{type(error).__name__}: {error}"[:300])
    if CANARY in sys.modules or Path(MARK).exists():
        guard.seen.append("code was run")
    return list(dict.fromkeys(guard.seen))


def test_the_guard_sees_what_attacks_do(guard, folder):
    """Without this, nothing below could fail."""

    def attack():
        import os

        os.getenv("HOME")
        os.system("true")
        __import__(CANARY)

    found = attempt(guard, Counter(), attack)
    sys.modules.pop(CANARY)
    assert {each.split()[0] for each in found} >= {"environment", "os.system", "import", "open", "code"}


@pytest.mark.parametrize("count", [FEW, MANY])
def test_mutated_run_folders_run_nothing(count, guard, folder, evaluated, honest, capsys):
    run = folder / "run"
    (run / SAVED).parent.mkdir(parents=True)
    evaluated.checkpoint, targets = str(run), sorted(project_targets(CONF))
    trusted = registered(evaluated)
    doors = [
        lambda: build_all(recall_whole(evaluated, run), trusted),
        lambda: build_inputs(describe_problem(recall_setup(evaluated))),
    ]
    for content in honest.values():
        (run / SAVED).write_text(as_yaml(content))
        for door in doors:
            door()
    rng, outcomes, problems = random.Random(35), Counter[str](), []
    for number in range(count):
        content = honest[rng.choice(list(honest))]
        if number % 4:
            (run / SAVED).write_text(as_yaml(mutate(rng, content, targets if number % 2 else ())))
        else:
            (run / SAVED).write_bytes(mutate_text(rng, as_yaml(content)))
        problems += attempt(guard, outcomes, rng.choice(doors))
    with capsys.disabled():
        print(f"\n{count} run folders: {dict(outcomes)}")
    assert not problems
    assert min(outcomes["accepted"], outcomes["refused"]) > count / 15


def save_choices(folder):
    """Save a policy that chooses options."""
    blueprint, rules = Blueprint(options={"hidden": 8}), OptionRules(num_candidates=4)
    torch.manual_seed(3)
    OptionCheckpoint(blueprint.build(OptionSpec()), blueprint, rules, {"seed": 1}).save(folder)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_mutated_policies_run_nothing(count, guard, folder, evaluated, capsys):
    for name in SHIPPED:
        shutil.copytree(CONF.parent / "checkpoints" / name, folder / name)
    save_choices(folder / "choices")
    names = [*SHIPPED, "choices"]
    networks, targets = registered(evaluated), sorted(project_targets(CONF))
    honest = {name: json.loads((folder / name / DESCRIPTION).read_text()) for name in names}
    for name in names:
        load_policy(folder / name, networks)
    rng, outcomes, problems = random.Random(36), Counter[str](), []
    for number in range(count):
        place = folder / rng.choice(names)
        content = {**honest[place.name]}
        if number % 2:  # the market is where options meet OmegaConf
            market = content.get("market") or {"name": "forecast_planner", "options": {"plans": 4, "discount": 0.1}}
            content["market"] = mutate(rng, market, targets if number % 3 else ())
        elif number % 8:
            content = mutate(rng, content, targets if number % 3 else ())
        text = json.dumps(content)
        (place / DESCRIPTION).write_bytes(
            text.encode() if number % 8 else mutate_text(rng, json.dumps(content, indent=1))
        )
        problems += attempt(guard, outcomes, partial(load_policy, place, networks))
        if number % 2 and isinstance(content["market"], dict):
            problems += attempt(guard, outcomes, partial(build_market, content["market"]))
    with capsys.disabled():
        print(f"\n{count} policies, with their markets once more: {dict(outcomes)}")
    assert not problems
    assert min(outcomes["accepted"], outcomes["refused"]) > count / 15


def test_mutated_figures_and_provenance_run_nothing(guard, folder, evaluated, capsys):
    runs = {name: folder / name for name in ("earlier", "now")}
    for run in runs.values():
        run.mkdir()
        (run / "results.json").write_text(json.dumps(FIGURES))
        (run / PROVENANCE).write_text(json.dumps(BEGAN))

    def repeat():
        began = read_provenance(runs["earlier"])
        find_again(evaluated.copy(), began)
        list(changed_since(began, BEGAN))
        report_differences(runs["earlier"], runs["now"])

    repeat()
    rng, outcomes, problems = random.Random(37), Counter[str](), []
    for number in range(FEW):
        name, content = (("results.json", FIGURES), (PROVENANCE, BEGAN))[number % 2]
        changed = json.dumps(mutate(rng, content)).encode()
        (runs["earlier"] / name).write_bytes(changed if number % 3 else mutate_text(rng, json.dumps(content, indent=1)))
        problems += attempt(guard, outcomes, repeat)
        capsys.readouterr()
        (runs["earlier"] / name).write_text(json.dumps(content))
    with capsys.disabled():
        print(f"\n{FEW} files of figures and provenance: {dict(outcomes)}")
    assert not problems
