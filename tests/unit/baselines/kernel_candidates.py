"""The kernels that write candidates, called from Python."""

import numpy as np

from baselines.starling import two_candidates
from baselines.starling.round import Jobs, Nodes, StarlingRules
from baselines.starling.scratch import new_scratch
from envs.types import IntArray


def candidate(
    keep: bool, order: IntArray, jobs: Jobs, nodes: Nodes, rules: StarlingRules, *, grow: bool = True
) -> IntArray:
    """int16[num_jobs, num_nodes]: the result of `write_candidate`."""
    grid = np.empty_like(jobs.present)
    two_candidates.write_candidate(keep, grow, order, jobs, nodes, rules, new_scratch(jobs, nodes), grid)
    return grid


def merged_candidate(order: IntArray, jobs: Jobs, nodes: Nodes, rules: StarlingRules) -> IntArray:
    """int16[num_jobs, num_nodes]: the result of `write_merged_candidate`."""
    write, scratch = two_candidates.writing(jobs, nodes, rules), new_scratch(jobs, nodes)
    kept, grid = np.empty_like(jobs.present), np.empty_like(jobs.present)
    two_candidates.write_merged_candidate(write, order, jobs, nodes, rules, scratch, kept, grid)
    return grid
