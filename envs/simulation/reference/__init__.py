"""The reference engine: `docs/world.md` in plain Python. Tests compare the compiled engine with it."""

from envs.simulation.reference.engine import ReferenceSimulator
from envs.simulation.reference.objects import Job, JobStatus, Node
from envs.simulation.reference.state import reference_at

__all__ = ["Job", "JobStatus", "Node", "ReferenceSimulator", "reference_at"]
