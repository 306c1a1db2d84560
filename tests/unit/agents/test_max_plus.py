"""Max-plus and exact assignment against brute force, and the network that chooses by them."""

import itertools

import numpy as np
import pytest
import torch

from agents.checkpoint import Checkpoint
from agents.networks import MASKED, Blueprint, CoordinatedPolicy, JointChoice, check_network
from agents.networks.max_plus import CoordinationGraph, answer_in_turn, assign_jobs, joint_value, max_plus
from agents.scheduler import PolicyScheduler, choose_actions
from envs.gpu_cluster import DecisionRules, EnvSpec
from envs.gpu_cluster.columns import FIRST_CHOICE, PASS
from envs.simulation import Simulator, run_episode
from envs.types import MurmurationError
from tests.unit.agents.worlds import SPEC, network, observation, small_world

BATCH, AGENTS, CHOICES = 3, 5, 4


def random_graph(seed, tree, agents=AGENTS):
    """Random utilities, some masked, random symmetric payoffs, and a random tree or any edges."""
    rng = np.random.default_rng(seed)
    utilities = rng.normal(size=(BATCH, agents, CHOICES))
    utilities[rng.random(utilities.shape) < 0.2] = MASKED
    utilities[:, :, 0] = rng.normal(size=(BATCH, agents))
    payoffs = 2.0 * rng.normal(size=(BATCH, agents, agents, CHOICES, CHOICES))
    payoffs = payoffs + payoffs.transpose(0, 2, 1, 4, 3)
    edges = np.zeros((BATCH, agents, agents), bool)
    for b in range(BATCH):
        for i in range(1, agents):
            linked = [int(rng.integers(i))] if tree else np.flatnonzero(rng.random(i) < 0.8).tolist()
            for j in linked:
                edges[b, i, j] = edges[b, j, i] = True
    numbers = [torch.from_numpy(each.astype(np.float32)) for each in (utilities, payoffs)]
    return CoordinationGraph(numbers[0], numbers[1], torch.from_numpy(edges))


def plain_value(graph, b, actions):
    """The value of a joint action, pair by pair."""
    total = sum(float(graph.utilities[b, i, a]) for i, a in enumerate(actions))
    for i, j in itertools.combinations(range(len(actions)), 2):
        if graph.edges[b, i, j]:
            total += float(graph.payoffs[b, i, j, actions[i], actions[j]])
    return total


def brute_force(graph, b):
    """The best joint action of one graph, out of all."""
    agents = graph.utilities.shape[1]
    return max(itertools.product(range(CHOICES), repeat=agents), key=lambda each: plain_value(graph, b, each))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_brute_force_on_trees(seed):
    graph = random_graph(seed, tree=True)
    found = max_plus(graph, AGENTS)
    for b in range(BATCH):
        best = brute_force(graph, b)
        assert found.actions[b].tolist() == list(best)
        assert float(found.values[b]) == pytest.approx(plain_value(graph, b, best), rel=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_beliefs_on_a_tree_are_the_best_values_with_each_action(seed):
    """Up to a constant for each agent."""
    graph = random_graph(seed, tree=True, agents=3)
    beliefs = max_plus(graph, 3).beliefs
    for b, i in itertools.product(range(BATCH), range(3)):
        allowed = [a for a in range(CHOICES) if graph.utilities[b, i, a] > MASKED / 2]
        joint = list(itertools.product(range(CHOICES), repeat=3))
        best = [max(plain_value(graph, b, each) for each in joint if each[i] == a) for a in allowed]
        shift = np.array(best) - beliefs[b, i, allowed].numpy()
        np.testing.assert_allclose(shift, shift[0], atol=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_found_is_never_worse_than_the_start(seed):
    graph = random_graph(seed, tree=False)
    values = [max_plus(graph, iterations).values for iterations in range(8)]
    start = joint_value(graph, graph.utilities.argmax(-1))
    assert torch.equal(values[0], start)
    for value in values:
        assert (value >= start - 1e-4).all()
    assert (values[-1] > start).any()
    best = [plain_value(graph, b, brute_force(graph, b)) for b in range(BATCH)]
    assert (values[-1].numpy() <= np.array(best) + 1e-3).all()


@pytest.mark.parametrize("tree", [True, False])
def test_the_value_is_the_sum_over_agents_and_pairs(tree):
    graph = random_graph(3, tree)
    found = max_plus(graph, 3)
    expected = [plain_value(graph, b, found.actions[b].tolist()) for b in range(BATCH)]
    np.testing.assert_allclose(found.values.numpy(), expected, rtol=1e-5)


def test_masked_actions_are_never_chosen():
    graph = random_graph(0, tree=False)
    found = max_plus(graph, 5)
    assert (graph.utilities.gather(-1, found.actions.unsqueeze(-1)) > MASKED / 2).all()


SMALL = EnvSpec(num_nodes=3, num_gpu_types=1, node_gpus=1, num_candidates=2, num_slots=1)


def conflict_free(actions, spec):
    """Whether no two nodes choose one candidate."""
    choices = [int(each) for each in spec.decode(np.array(actions))[0]]
    shared = [each for each in choices if 0 <= each < spec.num_candidates]
    return len(set(shared)) == len(shared)


@pytest.mark.parametrize("seed", range(30))
def test_assignment_is_brute_force(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(SMALL.num_nodes, SMALL.num_actions))
    logits[rng.random(logits.shape) < 0.3] = MASKED
    logits[:, PASS] = rng.normal(size=SMALL.num_nodes) - 2.0
    found = assign_jobs(logits, SMALL)
    joint = itertools.product(range(SMALL.num_actions), repeat=SMALL.num_nodes)
    best = max((each for each in joint if conflict_free(each, SMALL)), key=lambda each: logits[range(3), each].sum())
    assert found.tolist() == list(best)


def test_where_nobody_may_pass_and_there_is_one_job_all_still_choose_what_is_allowed():
    logits = np.full((SMALL.num_nodes, SMALL.num_actions), MASKED)
    logits[:, SMALL.action(0, 1)] = [1.0, 3.0, 2.0]
    assert assign_jobs(logits, SMALL).tolist() == [SMALL.action(0, 1)] * 3


def coordinated(spec=SPEC, seed=0, **options):
    torch.manual_seed(seed)
    return CoordinatedPolicy(spec, **{"width": 16, "layers": 1, "heads": 2, "kept": 6, **options})


def rewarded(net, payoff):
    """A network in which two nodes that choose one candidate get a payoff, and all other pairs something random."""
    with torch.no_grad():
        net.same_job.fill_(payoff)
        net.payoff_weights.normal_(generator=torch.Generator().manual_seed(1))
    return net


@pytest.mark.parametrize("choosing", ["max_plus", "assignment", "independent"])
def test_it_keeps_to_the_protocols(choosing):
    for spec in (SPEC, EnvSpec(3, 2, 2, 4, 2, num_levels=3, effects=True)):
        net = rewarded(coordinated(spec, choosing=choosing), -3.0)
        check_network(net, spec)
        assert isinstance(net, JointChoice)
        assert not isinstance(network(), JointChoice)
        seen = observation(spec)
        for noise in (None, torch.randn_like(seen["mask"].float())):
            actions = net.choose(seen, noise)
            assert actions.dtype == torch.int64
            assert (seen["mask"].gather(-1, actions.unsqueeze(-1)) == 1).all()


def test_a_fresh_one_is_the_attention_policy_of_the_same_seed():
    plain, together = network(seed=4), coordinated(seed=4)
    together.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(together.logits(observation()), plain.logits(observation()))
    assert torch.equal(together.choose(observation()), plain.logits(observation()).argmax(-1))


def test_a_penalty_on_the_same_candidate_removes_conflicts():
    seen, spec = observation(batch=40), SPEC
    free = {}
    for payoff in (0.0, -50.0):
        net = coordinated()
        with torch.no_grad():
            net.same_job.fill_(payoff)
            net.nothing.bias.fill_(-5.0)  # all nodes want something
        free[payoff] = [conflict_free(each.tolist(), spec) for each in net.choose(seen)]
    assert sum(free[0.0]) < len(free[0.0]) - 5
    assert all(free[-50.0])
    assert all(conflict_free(each.tolist(), spec) for each in coordinated(choosing="assignment").choose(seen))


def test_imitation_and_ppo_reach_the_payoffs():
    """Gradients of the logits flow into payoffs through the messages."""
    net, seen = rewarded(coordinated(), 1.0), observation()
    best = seen["mask"].float().argmax(-1, keepdim=True)
    net.logits(seen).log_softmax(-1).gather(-1, best).sum().backward()
    for name in ("payoff_weights", "same_job", "embed_choice.weight", "embed_amount.weight"):
        gradient = net.get_parameter(name).grad
        assert gradient is not None
        assert gradient.abs().max() > 0


def test_actions_that_do_not_take_part_keep_their_utilities():
    net, seen = rewarded(coordinated(kept=3), -1.0), observation()
    utilities = net.score(seen)[0]
    moved = (net.logits(seen) != utilities).sum(-1)
    assert (moved <= 3).all()
    assert moved.any()
    actions, graph = net.graph(*net.score(seen))
    assert (actions == PASS).any(-1).all()
    torch.testing.assert_close(graph.payoffs, graph.payoffs.permute(0, 2, 1, 4, 3))
    assert not graph.edges.diagonal(dim1=1, dim2=2).any()
    assert FIRST_CHOICE == 1


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"kept": 0}, {"iterations": -1}, {"choosing": "any"}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(MurmurationError, match="choosing one of max_plus, assignment, independent"):
        coordinated(**wrong)


def test_as_a_scheduler_out_of_a_checkpoint(tmp_path):
    world = small_world(rules=DecisionRules(num_candidates=6, max_decisions=1))
    blueprint = Blueprint("agents.networks.CoordinatedPolicy", {"width": 16, "layers": 1, "heads": 2, "kept": 4})
    net = rewarded(blueprint.build(world.spec), -4.0)
    types = world.setup.cluster.gpu_types
    Checkpoint(net, blueprint, world.spec, world.rules, types, {}).save(tmp_path)
    loaded = Checkpoint.load(tmp_path)
    workload = world.source.evaluation("validation")[0]
    policies = (PolicyScheduler(net, world.spec, world.rules, types), loaded.scheduler())
    logs = [run_episode(each, Simulator(workload, world.setup)).log for each in policies]
    assert logs[0] == logs[1]
    assert len(logs[0].events) > 20


def test_equal_generators_choose_alike():
    net = rewarded(coordinated(), -1.0)
    arrays = {name: tensor.numpy() for name, tensor in observation().items()}
    first, second, other = (choose_actions(net, arrays, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("seed", range(10))
def test_answers_in_turn_never_lower_the_value_and_end_where_no_agent_can_do_better(seed):
    graph = random_graph(seed, tree=False)
    actions = graph.utilities.argmax(-1)
    for _ in range(AGENTS * CHOICES):
        before, actions = actions, answer_in_turn(graph, actions)
        assert (joint_value(graph, actions) >= joint_value(graph, before) - 1e-4).all()
    assert torch.equal(before, actions)
    for b, i in itertools.product(range(BATCH), range(AGENTS)):
        joint = actions[b].tolist()
        others = [[*joint[:i], a, *joint[i + 1 :]] for a in range(CHOICES)]
        best = max(plain_value(graph, b, each) for each in others)
        assert plain_value(graph, b, joint) == pytest.approx(best, abs=1e-3)
