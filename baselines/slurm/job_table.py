"""Submitted jobs and the partitions of a cluster, as the passes of Slurm's policy read them."""

import math

import numpy as np

from baselines.slurm.settings import YEAR, Partition, SlurmSettings
from envs.types import BoolArray, ClusterSpec, FloatArray, JobId, JobSpec, MurmurationError, Seconds, pools_of

EVERYWHERE = Partition("")  # of jobs without a pool where no partition is the default


class JobTable:
    """Jobs by number, in order of submission.

    A job's partition is the one of its pools (`constraints.pools`) with the highest tier, or the last default
    partition. In Slurm, a job of several partitions has an entry in the queue for each. A job's tenant is its account.

    Args:
        settings: the settings in force.
        cluster: its pools are the partitions' nodes.

    Attributes:
        partitions: those that jobs are in, by number.
        partition_types: bool[num_gpu_types] of each partition, the GPU types of its nodes.
        partition, tier, limit, fixed, association, user: of each job; `fixed` is the part of its priority that does not
            change, `limit` in seconds, `association` and `user` are numbers by first appearance.
        cores: of each job, for each of its GPUs; what its user is charged for.
        eligible: of each job, from when its age counts (man slurm.conf, ACCRUE_ALWAYS): from its submission, or from
            when it has waited for its begin time and for other jobs; NaN until that is seen.
        preempts: of each job, whether its QoS may preempt others, which puts it first.
        limits: those of QoS and associations on what may run at once; limits_of: their numbers, of each job.
        associations: account and user by number.
        node_weights: float64[num_gpu_types].
    """

    def __init__(self, settings: SlurmSettings, cluster: ClusterSpec) -> None:
        self._settings, self._cluster = settings, cluster
        self._default = ([each for each in settings.partitions.values() if each.default] or [EVERYWHERE])[-1]
        self._pools = [pools_of(name) for name in cluster.gpu_types]
        self._numbers: dict[str, int] = {}
        self.partitions: list[Partition] = []
        self.partition_types: list[BoolArray] = []
        self.partition: list[int] = []
        self.tier: list[int] = []
        self.limit: list[Seconds] = []
        self.fixed: list[float] = []
        self.association: list[int] = []
        self.user: list[int] = []
        self.cores: list[float] = []
        self.eligible: list[Seconds] = []
        self.preempts: list[bool] = []
        self.qos: list[str] = []
        self.limits = settings.limits
        self.limits_of: list[tuple[int, ...]] = []
        self.associations: dict[tuple[str, str], int] = {}
        self._users: dict[str, int] = {}
        largest = max((part.job_factor for part in settings.partitions.values()), default=1.0)
        self._most_factor = max(largest, 1e-12)
        by_node = sum(node.cpu_cores for node in cluster.nodes)
        self._num_cores = by_node if settings.cores == "nodes" else cluster.num_gpus
        self._most_qos = max((qos.priority for qos in settings.qos.values()), default=0.0) or 1.0

    def __len__(self) -> int:
        return len(self.limit)

    def add(self, job: JobSpec) -> None:
        """Add the next submitted job.

        Raises:
            MurmurationError: it asks for more than its partition allows, so Slurm would never start it.
        """
        number = self._find_partition(job)
        part, qos = self.partitions[number], self._settings.qos.get(job.qos.lower())
        if math.isfinite(job.time_limit) and job.time_limit > part.max_time:
            raise self._beyond(job, part, "MaxTime", f"{part.max_time:g} s", f"{job.time_limit:g} s")
        most = self._cluster.node_gpus[self.partition_types[number][self._cluster.node_types]].max()
        nodes = -(-job.num_gpus // int(most))
        if nodes > part.max_nodes:
            raise self._beyond(job, part, "MaxNodes", f"{part.max_nodes:g}", f"{nodes} nodes")
        self.partition.append(number)
        self.tier.append(part.tier)
        self.limit.append(min(job.time_limit, YEAR) if math.isfinite(job.time_limit) else part.usual_time)
        cores = nodes if self._settings.cores == "nodes" else job.num_gpus
        self.cores.append(cores / job.num_gpus)
        size = (nodes / self._cluster.num_nodes + cores / self._num_cores) / 2
        self.fixed.append(self._fixed(job, number, size, 0.0 if qos is None else qos.priority))
        self.association.append(self.associations.setdefault((job.tenant, job.user), len(self.associations)))
        self.user.append(self._users.setdefault(job.user, len(self._users)))
        self.eligible.append(math.nan if job.begin_time or job.dependency else job.submit_time)
        self.qos.append(job.qos.lower())
        self.limits_of.append(self.limits.of(job))
        self.preempts.append(self._settings.preempt_type == "qos" and qos is not None and bool(qos.preempt))

    @staticmethod
    def _beyond(job: JobSpec, part: Partition, name: str, allowed: str, asked: str) -> MurmurationError:
        return MurmurationError(
            f"job {job.name or job.id}: asks for {asked}, but {name} of partition {part.name or 'of all nodes'} is "
            f"{allowed}, so Slurm would never start it; raise {name} in slurm.conf, or leave the job out"
        )

    def _find_partition(self, job: JobSpec) -> int:
        known = self._settings.partitions
        asked = [known.get(pool, Partition(pool)) for pool in job.constraints.pools] or [self._default]
        part = max(asked, key=lambda each: each.tier)
        if part.name not in self._numbers:
            self._numbers[part.name] = len(self.partitions)
            there = np.array([part.name in pools for pools in self._pools])
            self.partitions.append(part)
            self.partition_types.append(there if there.any() else np.ones(len(there), np.bool_))
        return self._numbers[part.name]

    def _fixed(self, job: JobSpec, partition: int, size: float, qos: float) -> float:
        """Return the part of a priority that does not change: job size, partition, QoS, GPUs and nice."""
        rules = self._settings
        part = self.partitions[partition]
        there = self.partition_types[partition][self._cluster.node_types]
        return (
            rules.weight_job_size * (1.0 - size if rules.favor_small else size)
            + rules.weight_partition * part.job_factor / max(self._most_factor, part.job_factor)
            + rules.weight_qos * qos / self._most_qos
            + rules.weight_gpus * job.num_gpus / float(self._cluster.node_gpus[there].sum())
            - job.nice
        )

    def may_use(self, job: JobId, runs: BoolArray) -> BoolArray:
        """bool[num_gpu_types]: the types of its partition on which a job runs.

        Args:
            job: its number.
            runs: bool[num_gpu_types], whether it runs on so many GPUs of each type. If its partition has none of
                these, all are kept: Slurm would have refused the job.
        """
        both = runs & self.partition_types[self.partition[job]]
        return both if both.any() else runs

    @property
    def node_weights(self) -> FloatArray:
        """float64[num_gpu_types]: the weight of nodes of each type; nodes of lower weight are taken first."""
        weights = self._settings.weights
        plain = [name.partition("#")[0].partition(":")[0].lower() for name in self._cluster.gpu_types]
        return np.array([weights.get(name, weights.get("", 1.0)) for name in plain], np.float64)

    def lln(self, job: JobId) -> bool:
        """Return whether a job takes the least loaded nodes instead of packing them."""
        return self._settings.lln or self.partitions[self.partition[job]].lln

    def priority(self, job: JobId, now: Seconds, fair_share: float) -> int:
        """Return the priority of a job, a whole number of at least 1, as Slurm has it."""
        rules = self._settings
        if not rules.multifactor:
            return 1
        age = min((now - self.eligible[job]) / rules.max_age, 1.0)
        value = self.fixed[job] + rules.weight_age * age + rules.weight_fairshare * fair_share
        return max(int(np.floor(value)), 1)
