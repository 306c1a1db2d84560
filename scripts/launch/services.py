"""Schedulers and policies that answer clusters through the protocol."""

import itertools
from copy import deepcopy

from deployment.service import Session, serve_one
from deployment.sockets import Connection, listen
from launch.descriptions import ServiceRun
from launch.films import find_actor
from launch.inputs import build_inputs


def serve_run(run: ServiceRun) -> None:
    """Answer clusters one after the other, until the run's number of them has left.

    Raises:
        ChoiceError: not one scheduler is chosen.
        ProtocolError: the address is not local, or is in use.
    """
    inputs, actor = build_inputs(run.problem), find_actor(run)
    listener = listen(run.address)
    print(f"listening at {run.address}", flush=True)
    with listener:
        for _ in itertools.count() if run.clusters is None else range(run.clusters):
            connected, _ = listener.accept()
            print(serve_one(Session(deepcopy(actor), inputs.setup), Connection(connected)), flush=True)
