"""The first screen of TensorBoard in a browser."""

import re
import socket
import subprocess
import sys
import time
from urllib.request import urlopen

import pytest

from agents.loggers.tensorboard import TensorBoardWriter
from agents.tags import BOUND_LINE, HEADLINE, OVERVIEW, POLICY
from murmuration.runs.comparing import CURVES_ADDRESS
from tests.unit.reports.pages import drawn, find_browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def address(tmp_path):
    """The address of TensorBoard, which shows a short run; it ends with the test."""
    find_browser()
    writer = TensorBoardWriter(tmp_path, print)
    for step in range(4):
        writer.write({HEADLINE: 2.0 - 0.1 * step}, step)
        writer.write({"learner/signal_share": 0.1, "throughput/cpu_seconds": 3.0}, step)
    for name, hours in (("starling", 1.8), (BOUND_LINE, 0.7)):
        writer.draw_level({HEADLINE: hours}, 3, name)
    writer.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(tmp_path / "tensorboard"),
        "--host",
        "127.0.0.1",
    ]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(process, f"http://127.0.0.1:{port}/data/runs", f'"{POLICY}"')
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(process, address, text):
    """Wait until an address answers with a text, or the process that serves it ends."""
    while process.poll() is None:
        try:
            with urlopen(address, timeout=600) as answer:
                if text in answer.read().decode():
                    return
        except OSError:
            pass
        time.sleep(0.5)
    pytest.fail(f"{address} has not answered with {text}")


def test_the_overview_with_policy_baselines_and_bound_is_the_first_screen(address):
    page = drawn(f"{address}/{CURVES_ADDRESS.partition('6006/')[2]}", 1400, 1200, 20_000)
    assert re.search(r'class="slider-input"[^>]*value="0"|aria-valuetext="0"', page), "points stand at their values"
    text = re.sub(r"<[^>]*>", "\n", page)
    lines = [line.strip() for line in text.splitlines()]
    assert {POLICY, "starling", BOUND_LINE} <= set(lines)
    groups = [line for line in lines if line in (OVERVIEW, "learner", "throughput")]
    assert groups[0] == OVERVIEW
    assert HEADLINE.removeprefix(f"{OVERVIEW}/") in page
