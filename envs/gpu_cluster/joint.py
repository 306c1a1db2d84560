"""The Gymnasium environment of one episode: one agent chooses for all nodes."""

from envs.episodes.standard import JointEnv
from envs.types import BoolArray, IntArray


class JointGpuClusterEnv(JointEnv[IntArray]):
    """`JointEnv` with the masks of `GpuClusterVectorEnv`, which sb3-contrib's MaskablePPO asks for by method."""

    def action_masks(self) -> BoolArray:
        """Return bool[num_nodes * num_actions]: the actions that are allowed now, node after node."""
        allowed: BoolArray = self._vector.batch.observation["mask"][0].ravel() > 0
        return allowed
