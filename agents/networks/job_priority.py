"""Priorities of jobs from columns that need no profile of a job: the learned part of RLTune."""

from collections.abc import Sequence

import torch

from agents.networks.option_scorer import OptionScorer
from envs.options import OptionSpec
from envs.options.columns import CLUSTER_COLUMNS, JOB_ROW_COLUMNS, NODE_COLUMNS, OPTION_COLUMNS
from envs.types import MurmurationError

GROUPS = {"option": OPTION_COLUMNS, "job": JOB_ROW_COLUMNS, "node": NODE_COLUMNS, "cluster": CLUSTER_COLUMNS}
COLUMNS = (
    *("option.is_wait", "job.requested_gpus", "job.age", "job.attained_service"),
    *("cluster.waiting", "cluster.running", "cluster.free", "cluster.waiting_per_gpu"),
)


class JobPriority(OptionScorer):
    """An `OptionScorer` that sees a stated list of columns alone; the weights of all others count as zero.

    RLTune (Dongare et al., "Hybrid learning and optimization-based dynamic scheduling for DL workloads on heterogeneous
    GPU clusters", SoCC'25, arXiv:2512.10271) learns priorities by PPO from what is known of any job. This is a
    reconstruction from the paper's summary: its exact features and network were not at hand. The default columns have
    neither throughputs nor remaining work, and no column of a node, so all starts of a job have one score. Where the
    task lets run times be predicted from users' earlier jobs, add `job.remaining_time` and `job.gpu_time`.

    It is trained with `env.rules.placing=best_fit`, under which a choice of an option is a choice of a job, and with
    `env.rules.queue_order=fifo`, so that the candidates do not depend on their work.

    Args:
        spec: sizes of the rows.
        columns: names of `envs.options.columns` after their group, such as job.age.
        hidden: units of the hidden layer.
        output_scale: spread of the initial output weights.
        program: whether an integer program places jobs at play (`baselines.rltune`), instead of the environment's
            best fit; training always has the latter.

    Raises:
        MurmurationError: a column is unknown, or there is no unit.
    """

    def __init__(
        self,
        spec: OptionSpec,
        columns: Sequence[str] = COLUMNS,
        hidden: int = 24,
        output_scale: float = 0.05,
        program: bool = True,
    ) -> None:
        super().__init__(spec, hidden, output_scale, reluctance=0.0)
        known = [f"{group}.{name}" for group, names in GROUPS.items() for name in names]
        if unknown := [name for name in columns if name not in known]:
            raise MurmurationError(f"network: column {unknown[0]!r} is unknown; there are: {', '.join(known)}")
        self.program = program
        for (group, names), part in zip(GROUPS.items(), self.parts, strict=True):
            mask = torch.tensor([f"{group}.{name}" in columns for name in names], dtype=part.dtype)
            self.register_buffer(f"sees_{group}", mask[:, None], persistent=False)

    def layers(self) -> list[torch.Tensor]:
        """Return the weights of the hidden layer by kind of row, 0 for columns that it does not see."""
        return [part * getattr(self, f"sees_{group}") for group, part in zip(GROUPS, self.parts, strict=True)]
