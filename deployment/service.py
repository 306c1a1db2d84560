"""A scheduler behind the protocol: one cluster after the other asks it."""

from dataclasses import replace

from deployment.messages import read_beginning, read_message, read_round, write_decision, write_error
from deployment.mirror import Mirror, decide
from deployment.reading import Entry, ProtocolError
from deployment.sockets import Connection
from deployment.state import Decision
from envs.scheduling import Scheduler
from envs.simulation import Setup
from envs.types import MurmurationError


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
        allocation = self._scheduler.schedule(view)
        allocation.check_next_decision(now)
        return write_decision(now, decide(allocation, view.running.tolist()))

    def _begin(self, events: list[tuple[str, Entry]]) -> bytes:
        if [name for name, _ in events] != ["SIMULATION_BEGINS"]:
            raise ProtocolError(f"message {self._number}: the first message has one event, SIMULATION_BEGINS")
        beginning = read_beginning(events[0][1])
        setup = replace(self._setup, cluster=beginning.cluster)
        self._mirror = Mirror(setup, beginning.models, beginning.tenants, beginning.most_gpus, shares=True)
        self._scheduler.reset(beginning.cluster, beginning.rng)
        return write_decision(self._now, Decision({}))

    @property
    def num_messages(self) -> int:
        """Messages received."""
        return self._number


def serve_one(session: Session, connection: Connection) -> str:
    """Answer one cluster until it leaves; return one line about it."""
    try:
        while line := connection.receive():
            connection.send(session.answer(line))
        return f"a cluster left after {session.num_messages} messages"
    except MurmurationError as error:
        try:
            connection.send(write_error(0.0, str(error)))
        except ProtocolError:
            return f"a cluster was refused and has left: {error}"
        return f"a cluster was refused: {error}"
    finally:
        connection.close()
