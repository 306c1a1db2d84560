"""The most that the links between nodes carry for a job that is alone on them: the roofline of `docs/world.md`."""

import math

from envs.performance import counts_links, model_profile
from envs.simulation.setup import Setup
from envs.types import Gigabytes


class LinkLimit:
    """Upper bounds on throughputs over several nodes.

    A ring all-reduce of the gradients sends 2 (k - 1) / k gradients over the link of each of k nodes in every step
    (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"). The limit assumes that transfers overlap
    computing perfectly. It does not exist without contention, for performance models that count the links themselves
    (`envs.performance.counts_links`), and for named plans of models of sharded plans: their throughputs are Rubick's,
    and their transfers are no all-reduce of all gradients.

    Args:
        setup: the cluster, the performance model and the scenario's contention.

    Attributes:
        active: whether there is a limit for any job.
        least: GB/s of the slowest link of the nodes of each GPU type, by its name.
        fastest: GB/s of the fastest link of all nodes.
    """

    def __init__(self, setup: Setup) -> None:
        self.active = setup.scenario.contention.mode != "off" and not counts_links(setup.performance)
        self.least: dict[str, Gigabytes] = {}
        for node in setup.cluster.nodes:
            self.least[node.gpu_type] = min(self.least.get(node.gpu_type, math.inf), node.inter_node_bandwidth)
        self.fastest: Gigabytes = max(node.inter_node_bandwidth for node in setup.cluster.nodes)

    def throughput(
        self, model: str, num_gpus: int, num_nodes: int, link: Gigabytes, batch_size: int | None = None
    ) -> float:
        """Return the most samples/s, useful or not, over links of this many GB/s; infinite on one node.

        This is without a named plan, and with one where `covers_plans`.

        Args:
            model: a name in the zoo.
            num_gpus: GPUs of the job.
            num_nodes: nodes of the job.
            link: GB/s of the slowest link of its nodes.
            batch_size: samples of a step; None for the usual ones.

        Raises:
            PerformanceError: the zoo does not know the model.
        """
        if not self.active or num_nodes < 2:
            return math.inf
        profile = model_profile(model)
        per_sample = 2.0 * profile.gradient_gb / (batch_size or profile.usual_batch(num_gpus))
        return link / (per_sample * (num_nodes - 1) / num_nodes) if per_sample > 0 else math.inf

    def covers_plans(self, model: str) -> bool:
        """Return whether the limit holds for named plans of a model too: whether they can only be plain replicas.

        Raises:
            PerformanceError: the zoo does not know the model.
        """
        return self.active and model_profile(model).plans != "sharded"
