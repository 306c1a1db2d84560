"""Decision times of the library's schedulers on a loaded cluster."""

import statistics
import time
from collections.abc import Iterator
from itertools import islice

from baselines.starling import Starling
from benchmarks.report import Report
from benchmarks.suite import Suite
from benchmarks.timing import OutOfTimeError, time_limit
from benchmarks.worlds import MINUTE, PLAIN, FifoEpisode, Size, decide_in_rounds, load_three_quarters
from envs.scheduling import Scheduler
from envs.simulation import Scenario
from envs.types import MurmurationError

LARGEST = 1000  # nodes
COMPILE_LIMIT = 600.0  # seconds for the very first decision


def measure_decisions(report: Report, suite: Suite) -> None:
    """Time all schedulers at the sizes up to 8,000 GPUs; one that exceeds the limit is left out of larger sizes."""
    left_out: dict[str, str] = {}
    for size in (size for size in suite.sizes if size.nodes <= LARGEST):
        episode = load_three_quarters(size, Scenario(cpu_memory="shared"))
        count = 1 + suite.decisions
        for name in [name for name in suite.schedulers if name not in left_out]:
            scheduler = suite.schedulers[name]
            try:
                if size == suite.sizes[0]:  # compile before anything is timed
                    next(time_decisions(scheduler, episode, COMPILE_LIMIT))
                spent = list(islice(time_decisions(scheduler, episode, suite.decision_limit), count))
            except (OutOfTimeError, MurmurationError) as refusal:
                left_out[name] = f"decisions: {name} is left out from {size} on: {refusal}"
                continue
            except Exception:
                left_out[name] = report.add_fault(f"decisions: {name} from {size} on")
                continue
            # The first decision differs from later ones: it is made on a cluster that FIFO has filled.
            report.add("decisions", size, f"{name}, first decision", 1e3 * spent[0], "ms")
            report.add("decisions", size, f"{name}, median of later ones", 1e3 * statistics.median(spent[1:]), "ms")
    report.notes.extend(left_out.values())


def measure_compiled_decisions(report: Report, suite: Suite) -> None:
    """Time a decision of Starling in compiled code and by `schedule`, on the smallest cluster, over the same rounds.

    The ratios say how much slower it is than where jobs share only GPUs, without look-ahead.
    """
    size, alone = suite.sizes[0], 0.0
    for shared, scenario in (("GPUs alone", PLAIN), ("shared cores", Scenario(cpu_memory="shared"))):
        episode = load_three_quarters(size, scenario)
        for look_ahead in (0, 12):
            starling, name = (
                Starling(look_ahead=look_ahead, batch="usual"),
                f"starling, {look_ahead} completions ahead, {shared}",
            )
            compiled, rounds = min(time_compiled(starling, episode) for _ in range(1 + suite.repeats))
            alone = alone or compiled
            report.add("compiled", size, f"{name}, compiled", 1e6 * compiled, "us")
            report.add("compiled", size, f"{name}, over GPUs alone without look-ahead", compiled / alone, "x")
            spent = list(time_decisions(starling, episode, suite.decision_limit))
            report.add("compiled", size, f"{name}, schedule", 1e6 * statistics.mean(spent), "us")
            report.same(f"{name}: rounds", rounds, len(spent))


def time_compiled(starling: Starling, episode: FifoEpisode) -> tuple[float, int]:
    """Return the mean CPU seconds of a decision from the loaded instant to the end, simulation included, and rounds."""
    episode.rewind()
    simulator = episode.simulator
    record = simulator.state.episode[0, 0]
    starling.reset(simulator.cluster, simulator.rng)
    starling.kernel_arguments(simulator)  # looks up all jobs
    before, began = int(record.num_rounds), time.process_time()
    starling.play(simulator)
    rounds = int(record.num_rounds) - before
    return (time.process_time() - began) / rounds, rounds


def time_decisions(scheduler: Scheduler, episode: FifoEpisode, limit: float) -> Iterator[float]:
    """Yield the CPU seconds of each decision from the loaded instant on."""
    episode.rewind()
    simulator = episode.simulator
    scheduler.reset(simulator.cluster, simulator.rng)
    for view in simulator.rounds():
        with time_limit(limit):
            began = time.process_time()
            allocation = scheduler.schedule(view)
            spent = time.process_time() - began
        yield spent
        simulator.apply(allocation)


def rounds_per_second(scheduler: Scheduler, size: Size, rounds: int) -> float:
    """Rounds of a minute per CPU second, decision and simulation together, from the loaded instant on.

    Most published simulators have such rounds. The first round is not counted.
    """
    episode = load_three_quarters(size, decide_in_rounds(PLAIN, MINUTE))
    simulator = episode.simulator
    scheduler.reset(simulator.cluster, simulator.rng)
    began, count = 0.0, -1
    for view in islice(simulator.rounds(), rounds + 1):
        simulator.apply(scheduler.schedule(view))
        count += 1
        began = began or time.process_time()
    return count / (time.process_time() - began)
