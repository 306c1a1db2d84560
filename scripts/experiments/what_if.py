"""Replays of public traces, whether they may be believed, and policies that were trained there.

Each trace is played by `murmuration what-if`, with the words of its command line. Policies learn from the first part of
a trace under Slurm's rules, and are measured on the last one.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from envs.evaluation.files import write_whole
from envs.evaluation.statistics import Estimate
from envs.types.units import HOUR
from envs.workloads.readers.reader import DATA_VARIABLE
from experiments.performance.reproduction import Reproduction
from murmuration.config.choices import CONF
from murmuration.config.describe import compose_training
from murmuration.config.errors import ChoiceError
from murmuration.runs.seeds import train_and_evaluate
from murmuration.what_if.answer import WhatIfAnswer
from murmuration.what_if.asking import find_answer, make_parser
from murmuration.what_if.page import answer_page


def ask_of_traces(
    data: str,
    folder: Path,
    recorded: Mapping[str, Sequence[str]],
    learnt: Mapping[str, Mapping[str, Sequence[str]]],
    training: Sequence[str],
    seeds: int,
    iterations: int,
    only: Sequence[str] = (),
) -> Reproduction:
    """Replay recordings under their own schedulers, and play what was learnt from the first part of traces.

    Args:
        data: the folder with `traces/`; empty for the one that MURMURATION_DATA names.
        folder: of the run; receives the report of each trace, and the policies.
        recorded: words of what-if, by the name of a recording.
        learnt: by the name of a trace, `asks`, the words of what-if, and `options`, which training takes, too.
        training: further options of training.
        seeds: number of training seeds.
        iterations: of the training of each seed.
        only: names of recordings and traces; none for all.

    Raises:
        ChoiceError: an option is wrong, or a file is missing.
    """
    if data:
        os.environ[DATA_VARIABLE] = data
    wanted = only or [*recorded, *learnt]
    replays = [replay_row(name, ask_about(words, folder / name)) for name, words in recorded.items() if name in wanted]
    rows = []
    for name, trace in ((each, learnt[each]) for each in learnt if each in wanted):
        path, *words = trace["asks"]
        options = [*trace["options"], *training]
        own = [each for each in options if each.startswith("workload.")]
        options += [f"workload.path={find_file(path)}", f"seeds={seeds}", f"trainer.iterations={iterations}"]
        train_and_evaluate(compose_training(options)[0], folder / name)
        policies = [folder / name / f"seed_{seed}" if seeds > 1 else folder / name for seed in range(seeds)]
        words += ["--split", "test", "--policy", "fifo_easy", *(f"--policy={each}" for each in policies), *own]
        rows.append(learnt_row(name, ask_about([path, *words], folder / name)))
    tables = [("Recorded and replayed", pd.DataFrame(replays)), ("Learnt and played", pd.DataFrame(rows))]
    return Reproduction([(title, frame) for title, frame in tables if len(frame)])


def find_file(path: str) -> Path:
    """Return a file of the project, or of the folder with `traces/`."""
    places = [CONF.parent / path, Path(os.environ.get(DATA_VARIABLE, "")) / path]
    for found in places:
        if found.exists():
            return found
    raise ChoiceError(f"data: there is no {places[-1]}; give the folder that has {path}")


def ask_about(words: Sequence[str], folder: Path) -> WhatIfAnswer:
    """Return the answer to a command line; its first word is a file, see `find_file`. Writes the report."""
    path, *rest = words
    answer = find_answer(make_parser().parse_intermixed_args([str(find_file(path)), *rest]))
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "what_if.html", answer_page(answer))
    return answer


def replay_row(name: str, answer: WhatIfAnswer) -> dict[str, str]:
    """Return what was recorded and what the incumbent does: its row of the page."""
    row = {"recording": name, "jobs": f"{int(answer.jobs.sum()):,}"}
    if (trust := answer.trust) is None:
        raise ChoiceError(f"{name}: the file does not say when its jobs started")
    both = trust.recorded, trust.replayed
    return row | {
        "trust": _text(Estimate(trust.overlap, trust.low, trust.high)),
        "GPU-hours waited, record and replay": ", ".join(f"{each['GPU-hours']:.0f}" for each in both),
        "over a minute, record and replay": ", ".join(f"{100 * each['over a minute']:.1f} %" for each in both),
    }


def learnt_row(name: str, answer: WhatIfAnswer) -> dict[str, str]:
    """Return mean waits of EASY and the policies relative to Slurm's, and the figures of all: the trace's row."""
    played = [answer.incumbent.label, *answer.others]
    hours = [answer.figures[each]["p99"] / HOUR for each in played]
    slowdowns = [answer.figures[each]["slowdown"] for each in played]
    return (
        {"trace": name, "jobs": f"{int(answer.jobs.sum()):,}"}
        | {label: _text(ratio) for label, ratio in answer.changes.items()}
        | {"bounded slowdown, Slurm first": ", ".join(f"{each:.1f}" for each in slowdowns)}
        | {"99th percentile of waits, hours": ", ".join(f"{each:.1f}" for each in hours)}
    )


def _text(ratio: Estimate) -> str:
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
