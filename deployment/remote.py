"""A scheduler in another process, asked through the protocol."""

import numpy as np

from deployment.messages import Beginning, read_decision, read_message, state_of, write_beginning, write_round
from deployment.mirror import Watched
from deployment.reading import ProtocolError
from deployment.sockets import Connection, open_connection
from deployment.state import ClusterState, Decision
from envs.scheduling import ClusterView
from envs.simulation import SimulationView
from envs.types import Allocation, ClusterSpec, MurmurationError, Seconds


class SchedulerClient:
    """Asks a scheduler through a connection.

    Args:
        connection: to `deployment.service`, or to any program that speaks the protocol.
        beginning: the cluster.
    """

    def __init__(self, connection: Connection, beginning: Beginning) -> None:
        self._connection, self._number = connection, 0
        self._ask(write_beginning(beginning))

    def decide(self, state: ClusterState) -> Decision:
        """Return the scheduler's decision for a round.

        Raises:
            ProtocolError: the answer does not follow the protocol, or the scheduler refuses.
        """
        return self._ask(write_round(state))

    def _ask(self, line: bytes) -> Decision:
        self._connection.send(line)
        self._number += 1
        answer = self._connection.receive()
        if not answer:
            raise ProtocolError("the scheduler closed the connection; see what scripts/serve.py printed")
        return read_decision(read_message(answer, f"answer {self._number}")[1])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class RemoteScheduler:
    """A `Scheduler` that asks another process, for simulated clusters.

    Args:
        address: `unix:<file>` or `127.0.0.1:<port>`, where scripts/serve.py listens.
        patience: seconds to wait for an answer.
    """

    def __init__(self, address: str, patience: Seconds = 600.0) -> None:
        self.address, self.patience = address, patience
        self._client: SchedulerClient | None = None
        self._watched = Watched()
        self._random: tuple[int, int] | None = None

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode on a cluster."""
        self.close()
        self._watched, self._random = Watched(), state_of(rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the allocation that the other process decides.

        Raises:
            ProtocolError: see `SchedulerClient.decide`.
            MurmurationError: the scenario hides throughputs.
        """
        if not isinstance(view, SimulationView) or view.doubt is not None:
            raise MurmurationError(
                "a remote scheduler shows clusters whose throughputs are known; set information.throughput=exact"
            )
        state, copy = self._watched.read(view)
        if self._client is None:
            jobs = copy.workload
            begun = Beginning(
                view.cluster, jobs.models, jobs.tenants, copy.table.throughputs.shape[2] - 1, self._random
            )
            self._client = SchedulerClient(self._connect(), begun)
        decision, allocation = self._client.decide(state), view.allocation(keep_running=True)
        allocation.changes.update(decision.placements)
        allocation.next_decision = decision.next_decision
        return allocation

    def _connect(self) -> Connection:
        return open_connection(self.address, self.patience)

    def close(self) -> None:
        """End the conversation."""
        if self._client is not None:
            self._client.close()
        self._client = None
