"""A scheduler behind the protocol: clusters ask it, several at a time."""

import itertools
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from deployment.messages import read_beginning, read_message, read_round, write_decision, write_error
from deployment.mirror import Mirror, MirrorView, decide
from deployment.reading import Entry, ProtocolError
from deployment.sockets import Connection
from deployment.state import Decision
from envs.evaluation.failure import message_of
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import MurmurationError, Seconds, as_line

MOST = 10**9
FREED_WITHIN: Seconds = 1.0  # in which the place of a cluster that leaves is given to the next one
ENDED_WITHIN: Seconds = 2.0  # in which answers to clusters are broken off when the service ends


class SchedulerFaultError(MurmurationError):
    """A scheduler that raised an error, or decided what the simulator would refuse."""


@dataclass(frozen=True)
class ServiceRules:
    """How many clusters are answered.

    Attributes:
        clusters: after which the service ends; None for all that come.
        clients: most clusters at a time; further ones are refused.
        patience: seconds until a cluster that sends no message is told so and left; None without a limit.

    Raises:
        MurmurationError: a number is not positive.
    """

    clusters: int | None = None
    clients: int = 16
    patience: Seconds | None = 3600.0

    def __post_init__(self) -> None:
        for name, numbers in (("clusters", int), ("clients", int), ("patience", int | float)):
            value = getattr(self, name)
            if value is None and name != "clients":
                continue
            if isinstance(value, bool) or not isinstance(value, numbers) or not 0 < value <= MOST:
                wanted = "a number of seconds" if name == "patience" else "a whole number"
                raise MurmurationError(f"{name}={value}: must be {wanted} above 0 and at most {MOST:,}")


class Session:
    """One cluster that asks a scheduler, line by line.

    Args:
        scheduler: it is reset when the cluster begins.
        setup: performance model and scenario; the nodes are those that the cluster names.
    """

    def __init__(self, scheduler: Scheduler, setup: Setup) -> None:
        self._scheduler, self._setup = scheduler, setup
        self._mirror: Mirror | None = None
        self._number, self._now = 0, 0.0

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a line.

        Raises:
            MurmurationError: the line is refused; the session is over then, because its state is in doubt.
        """
        self._number += 1
        now, events = read_message(line, f"message {self._number}")
        if now < self._now:
            raise ProtocolError(f"message {self._number}: now is {now:g}, before {self._now:g}; time does not go back")
        self._now = now
        if self._mirror is None:
            return self._begin(events)
        state = read_round(now, events)
        view = self._mirror.observe(state)
        if state.submitted:
            self._mirror.check_runnable()
        return write_decision(now, self._decide(self._mirror, view))

    def _decide(self, mirror: Mirror, view: MirrorView) -> Decision:
        """Return the scheduler's decision; none leaves that the simulator would refuse."""
        try:
            decision = decide(self._scheduler.schedule(view), view.running.tolist())
            mirror.check(decision)
        except (Exception, SystemExit) as error:
            raise self._fault(error) from error
        return decision

    def _fault(self, error: BaseException) -> SchedulerFaultError:
        name = type(self._scheduler).__name__
        return SchedulerFaultError(f"the scheduler {name} failed at now = {self._now:g}: {message_of(error)}")

    def _begin(self, events: list[tuple[str, Entry]]) -> bytes:
        if [name for name, _ in events] != ["SIMULATION_BEGINS"]:
            raise ProtocolError(f"message {self._number}: the first message has one event, SIMULATION_BEGINS")
        beginning = read_beginning(events[0][1])
        setup = replace(self._setup, cluster=beginning.cluster)
        self._mirror = Mirror(setup, beginning.models, beginning.tenants, beginning.most_gpus, shares=True)
        try:
            self._scheduler.reset(beginning.cluster, beginning.rng)
        except (Exception, SystemExit) as error:
            raise self._fault(error) from error
        return write_decision(self._now, Decision({}))

    @property
    def num_messages(self) -> int:
        """Messages received."""
        return self._number


def serve_one(session: Session, connection: Connection) -> str:
    """Answer one cluster until it leaves; return one line about it. Whatever goes wrong ends this session only."""
    try:
        while line := connection.receive():
            connection.send(session.answer(line))
        return f"a cluster left after {session.num_messages} messages"
    except Exception as error:
        said = as_line(message_of(error))
        with suppress(ProtocolError):  # it may be gone
            connection.send(write_error(0.0, said))
        return f"a cluster was refused: {said}"
    finally:
        connection.close()


class Service:
    """Answers the clusters that connect, each in a thread.

    Args:
        listener: a listening socket.
        begin: returns the session of a new cluster; sessions share nothing that changes.
        rules: how many clusters.
        tell: takes one line about each cluster that leaves or is refused.
    """

    def __init__(
        self, listener: socket.socket, begin: Callable[[], Session], rules: ServiceRules, tell: Callable[[str], None]
    ) -> None:
        self._listener, self._begin, self.rules, self._tell = listener, begin, rules, tell
        self._places = threading.Semaphore(rules.clients)
        self._telling = threading.Lock()
        self._answering: dict[Connection, threading.Thread] = {}

    def serve(self) -> None:
        """Answer until as many clusters as the rules say have come and left."""
        try:
            for _ in itertools.count() if self.rules.clusters is None else range(self.rules.clusters):
                connection = self._next_cluster()
                thread = threading.Thread(target=self._answer, args=(self._begin(), connection), daemon=True)
                self._answering[connection] = thread
                thread.start()
            for thread in list(self._answering.values()):
                thread.join()
        finally:
            self._break_off()

    def _next_cluster(self) -> Connection:
        """Wait for a cluster for which there is a place; refuse those for which there is none."""
        while True:
            connected, _ = self._listener.accept()
            connection = Connection(connected, self.rules.patience)
            if self._places.acquire(timeout=FREED_WITHIN):
                return connection
            said = f"{self.rules.clients} clusters are answered already; come again later, or serve with more clients="
            with suppress(ProtocolError):
                connection.send(write_error(0.0, said))
            connection.close()
            self._say(f"a cluster was refused: {said}")

    def _answer(self, session: Session, connection: Connection) -> None:
        try:
            said = serve_one(session, connection)
        finally:
            self._answering.pop(connection, None)
            self._places.release()
        self._say(said)

    def _say(self, line: str) -> None:
        with self._telling:
            self._tell(line)

    def _break_off(self) -> None:
        for connection, thread in list(self._answering.items()):
            connection.break_off()
            thread.join(ENDED_WITHIN / self.rules.clients)
