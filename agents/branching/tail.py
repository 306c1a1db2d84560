"""The tail value: what the rest of an episode will cost after a branch is cut, learnt from what it has cost."""

import math

import torch
from torch import Tensor, nn

from agents.networks.graph import start_at_zero
from envs.episodes.backlog import Backlog, BacklogColumn, BacklogContext
from envs.types import Seconds

MOST_STRETCH = 2.0  # natural logarithm of the factor by which an estimate may be stretched or shrunk


class TailValue(nn.Module):
    """Discounted job-seconds from an instant on: a sum over the jobs present, and a rest for those to come.

    A job contributes the discounted time to its end. That is the estimate of `observe_backlog`, stretched by a factor
    that follows from the job's row and the context; so a new value is the estimated backlog. The rest follows from the
    context alone. It sees remaining work that a scenario may hide: like MAPPO's central value (NeurIPS'22, section
    5.2) it serves training only.

    Args:
        discount_time: the seconds after which a job-second counts 1/e; infinite for no discount.
        width: width of the hidden layers.
    """

    scale: Tensor  # standard deviation of the targets so far, in job-seconds

    def __init__(self, discount_time: Seconds, width: int = 32) -> None:
        super().__init__()
        self.discount_time = discount_time
        context = len(BacklogContext)
        self.stretch = correction(len(BacklogColumn) + context, width)
        self.rest = correction(context, width)
        self.register_buffer("scale", torch.zeros(()))

    def forward(self, backlog: dict[str, Tensor]) -> Tensor:
        """Return values in job-seconds, [...].

        Args:
            backlog: float32 `jobs` [..., rows, F], `context` [..., C], `ends` and `counts` [..., rows], see `Backlog`.
        """
        jobs, context, ends = backlog["jobs"], backlog["context"], backlog["ends"]
        beside = context.unsqueeze(-2).expand(*jobs.shape[:-1], context.shape[-1])
        factor = self.stretch(torch.cat([jobs, beside], -1)).squeeze(-1)
        stays = ends * torch.exp(MOST_STRETCH * torch.tanh(factor))
        if not math.isinf(self.discount_time):
            stays = -self.discount_time * torch.expm1(-stays / self.discount_time)
        value: Tensor = (stays * backlog["counts"]).sum(-1) + self.scale * self.rest(context).squeeze(-1)
        return value

    @torch.no_grad()
    def track_scale(self, targets: Tensor, weight: float) -> None:
        """Move the scale towards the deviation of new targets; the first ones set it."""
        found = targets.std().clamp(min=1.0)
        self.scale += (weight if float(self.scale) > 0 else 1.0) * (found - self.scale)


def correction(width_in: int, width: int) -> nn.Sequential:
    """Return a network with one output, which starts at 0."""
    out = nn.Linear(width, 1)
    start_at_zero(out)
    return nn.Sequential(nn.Linear(width_in, width), nn.Tanh(), out)


def backlog_tensors(backlog: Backlog) -> dict[str, Tensor]:
    """Return the parts of a backlog by name."""
    return {name: torch.from_numpy(part) for name, part in zip(Backlog._fields, backlog, strict=True)}
