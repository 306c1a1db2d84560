"""Nodes that tell each other how much they want each job before they choose, along the graph of nodes and jobs."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.networks.decisions import Decisions, segment_log_softmax
from agents.networks.option_attention import OptionAttention
from envs.episodes.candidates import Features
from envs.options import OptionSpec
from envs.options.columns import JOB_RUNS, OPTION_START, OPTION_WAIT

NOBODY = -20.0  # the margin of others where nobody else has an option for a job
NUM_HEARD = 4


class ClaimWeights(NamedTuple):
    """What `OptionClaims` has besides a hidden layer, for compiled code.

    Attributes:
        rounds: of messages.
        first_bias, reluctance, last_bias: of first scores, and of corrections.
        of_state, of_heard: float32[width, width] and float32[NUM_HEARD, width], weights of the correction.
        bias, output: float32[width].
    """

    rounds: int
    first_bias: float
    reluctance: float
    last_bias: float
    of_state: Features
    of_heard: Features
    bias: Features
    output: Features

    @classmethod
    def none(cls) -> "ClaimWeights":
        """Return the weights of a network without messages."""
        nothing = np.zeros((0, 0), np.float32)
        return cls(0, 0.0, 0.0, 0.0, nothing, nothing, nothing.ravel(), nothing.ravel())


class OptionClaims(OptionAttention):
    """Scores of options with messages about jobs, for nodes that act together; the same weights for all nodes.

    1. An option's first score follows from its features and those of its job, its node and the cluster.
    2. `rounds` times, each node tells for each job the margin of its best option over its waiting, and the probability
       that it would claim the job. It hears of each job the highest margin of the others, by how much its own is
       higher, whether it leads (of equals the lowest node does, as in `envs.options.together`), and how many others
       would claim it. A correction of the first score follows from that.

    This is a form of max-sum on the graph of nodes and jobs, whose edges are the options; its size is that of the list.
    Where nodes act together it also acts compiled, see `agents.policies.options.messages`.

    Args:
        spec: sizes of the rows.
        width: of the hidden layers.
        rounds: of messages.
        reluctance: by how much lower the options that change a running job score at first, see `OptionScorer`.

    Raises:
        MurmurationError: an option is out of range.
    """

    def __init__(self, spec: OptionSpec, width: int = 32, rounds: int = 1, reluctance: float = 8.0) -> None:
        super().__init__(spec, width, 1, rounds, "none", reluctance)
        self.rounds = rounds
        self.first = nn.Linear(width, 1)
        correction = nn.Linear(width, 1)
        self.last = nn.Sequential(nn.Linear(width + NUM_HEARD, width), nn.ReLU(), correction)
        with torch.no_grad():
            for layer in (self.first, correction):
                layer.weight.mul_(0.3)
                layer.bias.zero_()

    def scores(self, decisions: Decisions) -> Tensor:
        """Return float32[M], the score of every option."""
        state = self._states(decisions)
        runs = torch.cat((decisions.jobs[:, JOB_RUNS], torch.zeros(1)))[decisions.job_of]
        first = self.first(state).squeeze(-1)
        first = first - self.reluctance * torch.relu(runs - decisions.options[:, OPTION_START])
        found: Tensor = first
        for _ in range(self.rounds):
            heard = hear_claims(decisions, found.detach())
            found = first + self.last(torch.cat((state, heard), -1)).squeeze(-1)
        return found

    @torch.no_grad()
    def flat(self) -> Features:
        """Return the weights of first scores float32[1, num_weights], as `OptionScorer.flat`."""
        layers = [layer.weight.T for layer in (self.option, self.job, self.node, self.cluster)]
        pieces = [*layers, self.option.bias, self.first.weight]
        return np.concatenate([piece.numpy().ravel() for piece in pieces])[None]

    @torch.no_grad()
    def claim_weights(self) -> ClaimWeights:
        """Return the weights of the messages."""
        layers: Any = self.last
        hidden, _, correction = layers
        of_state, of_heard = hidden.weight.T.split((self.first.in_features, NUM_HEARD))
        return ClaimWeights(
            self.rounds,
            float(self.first.bias),
            float(self.reluctance),
            float(correction.bias),
            of_state.numpy(),
            of_heard.numpy(),
            hidden.bias.numpy(),
            correction.weight[0].numpy(),
        )


def hear_claims(decisions: Decisions, scores: Tensor) -> Tensor:
    """Return float32[M, NUM_HEARD], what the node of each option hears of its job; zeros for waiting.

    Args:
        decisions: the decisions, in which nodes act together.
        scores: float32[M], what nodes would choose by now.
    """
    heard = torch.zeros(len(scores), NUM_HEARD)
    about = (decisions.job_of >= 0) & (decisions.node_of >= 0)
    if not bool(about.any()):
        return heard
    margin, claimed = margins(decisions, scores)
    pair = decisions.job_of[about] * len(decisions.nodes) + decisions.node_of[about]
    pairs, of = torch.unique(pair, return_inverse=True)  # ascending: of each job the lowest node first
    job, count = pairs // len(decisions.nodes), len(decisions.jobs)
    best = torch.full((len(pairs),), NOBODY).scatter_reduce(0, of, margin[about], "amax")
    claim = torch.zeros(len(pairs)).index_add(0, of, claimed[about])
    top = torch.full((count,), NOBODY).scatter_reduce(0, job, best, "amax")
    place = torch.where(best >= top[job], torch.arange(len(pairs)), len(pairs))
    leads = place == torch.full((count,), len(pairs)).scatter_reduce(0, job, place, "amin")[job]
    second = torch.full((count,), NOBODY).scatter_reduce(0, job, torch.where(leads, NOBODY, best), "amax")
    others = torch.where(leads, second[job], top[job])
    demand = torch.zeros(count).index_add(0, job, claim)[job] - claim
    ahead = (best - others).clamp(-8.0, 8.0) / 4.0
    heard[about] = torch.stack((others.clamp(NOBODY, -NOBODY) / 8.0, ahead, leads.float(), demand), -1)[of]
    return heard


def margins(decisions: Decisions, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return float32[M] each: an option's margin over the waiting of its choice, and its probability there.

    Where a node may not wait the margin is the score.
    """
    count = len(decisions.choice_decision)
    waits = decisions.options[:, OPTION_WAIT] > 0
    waiting = torch.zeros(count).index_add(0, decisions.choice_of[waits], scores[waits])
    margin = scores - waiting[decisions.choice_of]
    return margin, segment_log_softmax(scores, decisions.choice_of, count).exp()
