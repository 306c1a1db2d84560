"""Schedulers and policies that answer clusters through the protocol."""

from copy import deepcopy

from deployment.service import Service, Session
from deployment.sockets import listen
from murmuration.config.descriptions import ServiceRun
from murmuration.config.inputs import build_inputs
from murmuration.runs.films import find_actor


def serve_run(run: ServiceRun) -> None:
    """Answer clusters, several at a time, until the run's number of them has left.

    Raises:
        ChoiceError: not one scheduler is chosen.
        ProtocolError: the address is not local, or is in use.
    """
    chosen = find_actor(run), build_inputs(run.problem).setup
    listener = listen(run.address)
    print(f"listening at {run.address}", flush=True)
    with listener:
        Service(listener, lambda: Session(*deepcopy(chosen)), run.rules, lambda line: print(line, flush=True)).serve()
