"""The dynamic coordination graph: which nodes' decisions are coupled in this round, as a sparse list of edges.

A reconstruction of MAIFS (TPDS'25): its abstract names a dynamic coordination graph, and not how it is built. Two
nodes are linked, in both directions, if

1. both are among the `contenders` best places of one candidate: they should not both bid for it; or
2. one job holds GPUs on both, and they follow each other in its list of nodes or one of them is the first in it: what
   one does to the job concerns the other. All nodes of a job are thus at most two steps apart; or
3. two jobs with traffic, next to each other in the job list of a third node, contend for its link, and the two nodes
   hold the next (or, if there is none, the previous) shares of these jobs.

The number of edges, and the time to list them, grow with the number of candidates and shares, and not with the square
of the number of nodes. Finding the best places takes one step for each pair of a candidate and a node, like observing.
"""

from envs.bidding import columns as c
from envs.bidding.arrays import NUM_EDGES, BiddingArrays
from envs.bidding.observe import limit_features, log_count
from envs.simulation.compiled.jit import leaf
from envs.simulation.world.ordered_set import next_member


@leaf
def place_score(a: BiddingArrays, n: int, row: int) -> float:
    """How good a node is for a candidate without GPUs there: relative throughput x fit; 0 where it has no room."""
    slots = a.pairs.shape[1] - len(a.keys)
    pair = slots + row
    if a.pair_jobs[n, pair] < 0:
        return 0.0
    return float(a.pairs[n, pair, c.PAIR_THROUGHPUT] * a.pairs[n, pair, c.PAIR_FIT])


@leaf
def enter_contender(a: BiddingArrays, row: int, n: int, score: float) -> None:
    """Insert a node among the best places of a candidate: by higher score, then fewer free GPUs, then lower index."""
    places, scores = a.contenders[row], a.scores[row]
    rank = len(places)
    while rank > 0 and (
        places[rank - 1] < 0
        or score > scores[rank - 1]
        or (score == scores[rank - 1] and a.world.nodes[n].free < a.world.nodes[places[rank - 1]].free)
    ):
        if rank < len(places):
            places[rank] = places[rank - 1]
            scores[rank] = scores[rank - 1]
        rank -= 1
    if rank < len(places):
        places[rank] = n
        scores[rank] = score


@leaf
def find_contenders(a: BiddingArrays) -> None:
    """Find the best places of every candidate, and list for each node where it stands among them."""
    width = a.contenders.shape[1]
    for n in range(len(a.first_contest)):
        a.first_contest[n] = -1
    for row in range(len(a.keys) - 1, -1, -1):  # backwards, so that each node's list is in ascending order
        for rank in range(width):
            a.contenders[row, rank] = -1
        if a.listed[row] >= 0 and width > 1:
            for n in range(len(a.first_contest)):
                score = place_score(a, n, row)
                if score > 0:
                    enter_contender(a, row, n, score)
        for rank in range(width):
            n = a.contenders[row, rank]
            if n >= 0:
                a.next_contest[row * width + rank] = a.first_contest[n]
                a.first_contest[n] = row * width + rank


@leaf
def edge_from(a: BiddingArrays, first: int, source: int, target: int) -> int:
    """Return the edge from one node to another, made if it is new; edges to this target begin at `first`."""
    edge = int(a.seen[source])
    if edge < first:
        edge = int(a.sizes[NUM_EDGES])
        a.sizes[NUM_EDGES] += 1
        a.seen[source] = edge
        a.edges[0, edge] = source
        a.edges[1, edge] = target
        for i in range(a.edge_features.shape[1]):
            a.edge_features[edge, i] = 0.0
    return edge


@leaf
def link_contenders(a: BiddingArrays, first: int, n: int) -> None:
    """Link a node to the other best places of the candidates for which it is one."""
    width = a.contenders.shape[1]
    at = a.first_contest[n]
    while at >= 0:
        row = at // width
        for rank in range(width):
            other = a.contenders[row, rank]
            if other >= 0 and other != n:
                a.edge_features[edge_from(a, first, other, n), c.EDGE_CANDIDATES] += 1.0 / 8.0
        at = a.next_contest[at]


@leaf
def link_share(a: BiddingArrays, first: int, n: int, share: int, source: int, gpus: int) -> None:
    """Link a node to another node of the job of one of its shares."""
    record, node = a.world.shares[share], a.world.nodes[n]
    job = a.world.jobs[record.job]
    edge = edge_from(a, first, source, n)
    features = a.edge_features[edge]
    features[c.EDGE_JOBS] += 1.0 / 8.0
    features[c.EDGE_GPUS] += record.gpus + gpus  # compressed when all are summed
    features[c.EDGE_TRAFFIC] += job.traffic / node.link


@leaf
def link_jobs(a: BiddingArrays, first: int, n: int) -> None:
    """Link a node to the next, the previous and the first nodes of jobs that span nodes; a first node to all others."""
    shares = a.world.shares
    share = a.world.nodes[n].first_share
    while share >= 0:
        job = a.world.jobs[shares[share].job]
        if job.num_shares > 1:
            head = job.first_share
            if share == head:
                other = shares[share].next_of_job
                while other >= 0:
                    link_share(a, first, n, share, shares[other].node, shares[other].gpus)
                    other = shares[other].next_of_job
            else:
                link_share(a, first, n, share, shares[head].node, shares[head].gpus)
                before = a.before[share]
                if before != head:
                    link_share(a, first, n, share, shares[before].node, shares[before].gpus)
                after = shares[share].next_of_job
                if after >= 0:
                    link_share(a, first, n, share, shares[after].node, shares[after].gpus)
        share = shares[share].next_of_node


@leaf
def list_before(a: BiddingArrays) -> None:
    """Write, for each share of a running job that spans nodes, the share before it, -1 for none."""
    world = a.world
    j = next_member(world.running, len(world.jobs), 0)
    while j >= 0:
        before = -1
        share = world.jobs[j].first_share
        while share >= 0 and world.jobs[j].num_shares > 1:
            a.before[share] = before
            before = share
            share = world.shares[share].next_of_job
        j = next_member(world.running, len(world.jobs), j + 1)


@leaf
def far_end(a: BiddingArrays, share: int) -> int:
    """The node of the next share of a job that spans nodes, or of the previous one."""
    after = a.world.shares[share].next_of_job
    other = after if after >= 0 else a.before[share]
    node: int = a.world.shares[other].node
    return node


@leaf
def list_partners(a: BiddingArrays) -> None:
    """List for each node the nodes that are linked to it by a contended link, see 3. above."""
    world = a.world
    for n in range(len(world.nodes)):
        a.first_partner[n] = -1
    used = 0
    for n in range(len(world.nodes)):
        last = -1
        share = world.nodes[n].first_share
        while share >= 0:
            if world.jobs[world.shares[share].job].traffic > 0:
                if last >= 0:
                    here, there = far_end(a, last), far_end(a, share)
                    if here != there:
                        a.partner[used] = there
                        a.next_partner[used] = a.first_partner[here]
                        a.first_partner[here] = used
                        a.partner[used + 1] = here
                        a.next_partner[used + 1] = a.first_partner[there]
                        a.first_partner[there] = used + 1
                        used += 2
                last = share
            share = world.shares[share].next_of_node


@leaf
def link_partners(a: BiddingArrays, first: int, n: int) -> None:
    """Link a node to its partners."""
    at = a.first_partner[n]
    while at >= 0:
        a.edge_features[edge_from(a, first, a.partner[at], n), c.EDGE_CONTENDED] = 1.0
        at = a.next_partner[at]


@leaf
def observe_graph(a: BiddingArrays) -> None:
    """Write the coordination graph, from the pairs that have been observed."""
    find_contenders(a)
    list_before(a)
    list_partners(a)
    before = a.sizes[NUM_EDGES]
    a.sizes[NUM_EDGES] = 0
    for n in range(len(a.seen)):
        a.seen[n] = -1
    for n in range(len(a.seen)):
        first = a.sizes[NUM_EDGES]
        link_contenders(a, first, n)
        link_jobs(a, first, n)
        link_partners(a, first, n)
        for edge in range(first, a.sizes[NUM_EDGES]):
            features = a.edge_features[edge]
            features[c.EDGE_GPUS] = log_count(features[c.EDGE_GPUS])
            limit_features(features)
    for edge in range(a.sizes[NUM_EDGES], before):
        a.edges[0, edge] = -1
        a.edges[1, edge] = -1
        for i in range(a.edge_features.shape[1]):
            a.edge_features[edge, i] = 0.0
    a.num_edges[0] = a.sizes[NUM_EDGES]
