"""The options of one decision by node: those of the node whose turn it is, or of all nodes that act together."""

from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.columns import START, WAIT
from envs.options.rules import TURNS
from envs.simulation.compiled.jit import leaf

TAKES_TURNS, TOGETHER = TURNS.index("turns"), TURNS.index("together")
PRIME = 2147483647  # squares of numbers below it fit into 63 bits


@leaf
def keep_turn(a: OptionArrays) -> None:
    """Choose the node whose turn it is, and keep its options and waiting alone."""
    rules, num_nodes = a.rules[0], len(a.waited)
    nearest = num_nodes
    for option in range(1, rules.num_options):
        n = a.what[option, OPTION_NODE]
        after = (n - rules.last_node - 1 + num_nodes) % num_nodes
        if a.waited[n] == 0 and after < nearest:
            nearest = after
            rules.turn_of = n
    count = 1
    for option in range(1, rules.num_options):
        if a.what[option, OPTION_NODE] == rules.turn_of:
            for i in range(OPTION_AMOUNT + 1):
                a.what[count, i] = a.what[option, i]
            count += 1
    rules.num_options = count


@leaf
def group_by_node(a: OptionArrays, may_wait: bool) -> None:
    """Put the listed options in the order of nodes, and a waiting of its own before those of each node.

    A node that could start a job may not wait where GPUs may not stay free, nor give nothing to a gang while nothing
    else runs. `JointClaims.first` becomes the first option of each node.

    Args:
        a: the episode, with waiting as the first listed option.
        may_wait: see `envs.options.listing.may_wait`.
    """
    rules, joint, num_nodes = a.rules[0], a.joint, len(a.waited)
    must_act = joint.claims  # of the settlement before, which is over
    for n in range(num_nodes):
        joint.place[n] = 0
        must_act[n] = 0
    for option in range(1, rules.num_options):
        n = a.what[option, OPTION_NODE]
        joint.place[n] += 1
        if not may_wait and (rules.gang >= 0 or a.what[option, OPTION_ACTION] == START):
            must_act[n] = 1
        for i in range(OPTION_AMOUNT + 1):
            a.kept.what[option, i] = a.what[option, i]
    listed, total = rules.num_options, 0
    for n in range(num_nodes):
        joint.first[n] = total
        count = joint.place[n]
        if count > 0 and must_act[n] == 0:
            a.what[total, OPTION_ACTION] = WAIT
            a.what[total, OPTION_ROW] = -1
            a.what[total, OPTION_NODE] = n
            a.what[total, OPTION_AMOUNT] = 0
            total += 1
        joint.place[n] = total
        total += count
    joint.first[num_nodes] = total
    for option in range(1, listed):
        n = a.kept.what[option, OPTION_NODE]
        for i in range(OPTION_AMOUNT + 1):
            a.what[joint.place[n], i] = a.kept.what[option, i]
        joint.place[n] += 1
    rules.num_options = total


@leaf
def drawn_rank(num_rounds: int, subround: int, node: int) -> float:
    """Return a number in 0 to 1 that depends on round, sub-round and node as if it were drawn."""
    value = (num_rounds * 48271 + subround * 16807 + node * 69621 + 1) % PRIME
    for _ in range(3):
        value = (value * value + 48271 * value + node) % PRIME
    return float(value / PRIME)
