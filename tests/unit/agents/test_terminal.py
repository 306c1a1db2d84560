"""What a person sees of training: the bar's figures, notes, and nothing of RLlib's log."""

import io
import logging

from agents.loggers.tensorboard import TensorBoardWriter
from agents.on_ray.quiet import LOGGERS, quieten
from agents.tags import POLICY
from agents.terminal import ProgressListener
from envs.pictures.texts import TextConsole
from tests.unit.agents.curves import scalars


def shown(*steps):
    """The text of a bar after some steps of one phase."""
    file = io.StringIO()
    console = TextConsole(file, width=200, terminal=True)
    with ProgressListener(console) as listener:
        listener.phase("ppo", 4)
        for step in steps:
            listener.step(*step)
    return file.getvalue()


def test_the_bar_shows_figures_in_a_persons_units():
    text = shown(
        (1, {"train/mean_jct": 12345.6, "imitation/agreement": 0.875, "validated": 2000.0, "baseline": 2500.0})
    )
    assert "training 12,346 s" in text
    assert "agreement 88%" in text
    assert "mean JCT 2,000 s" in text
    assert "(-20.0% to the best baseline)" in text


def test_unfinished_jobs_are_shown_where_there_are_some():
    assert "1.25 jobs unfinished" in shown((1, {"validated": 2000.0, "unfinished": 1.25}))
    assert "unfinished" not in shown((1, {"validated": 2000.0, "baseline": 2500.0}))


def test_figures_that_are_missing_or_no_numbers_are_left_out():
    text = shown((1, {"train/mean_jct": float("nan"), "validated": 10.0}))
    assert "training" not in text
    assert "to the best baseline" not in text
    assert "mean JCT 10 s" in text


def test_a_phase_that_is_over_is_full():
    file = io.StringIO()
    console = TextConsole(file, width=200)
    with ProgressListener(console) as listener:
        listener.phase("baselines", 3)
        listener.step(1, {})
        listener.phase("imitation", 1)
        listener.step(5, {"total": 20})
        first, second = listener._bar.tasks
        assert (first.completed, first.total) == (3, 3)
        assert (second.completed, second.total) == (5, 20)
        listener.note("something worth a line")
    assert "something worth a line" in file.getvalue()


def test_rllib_is_quiet_below_errors(caplog):
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    quieten()
    for name in LOGGERS:
        logging.getLogger(name).warning("of no use to the user")
        assert logging.getLogger(f"{name}.core").isEnabledFor(logging.ERROR)
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING)
    assert caplog.records == []


def test_curves_are_one_run_a_line_and_leave_out_what_is_no_number(tmp_path):
    curves = TensorBoardWriter(tmp_path, print)
    for step in range(3):
        curves.write({"train/return": float(step), "learner/kl": float("nan"), "learner/lr": float("inf")}, step)
    curves.write({"validation/mean_jct": 7.0}, 0, "fifo")
    curves.close()
    assert scalars(tmp_path / "tensorboard" / POLICY) == {"train/return": [(0, 0.0), (1, 1.0), (2, 2.0)]}
    assert scalars(tmp_path / "tensorboard" / "fifo") == {"validation/mean_jct": [(0, 7.0)]}
