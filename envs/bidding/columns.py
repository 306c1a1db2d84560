"""Columns of the bidding environment's observations and actions: name, meaning, unit and scaling of each.

The kernels, the reference implementation and `BiddingSpec` index features by these names. No column names a GPU type, a
model or a node, and none depends on the size of the cluster, so that one network plays on any cluster.

Scaling: "log time" is log(1 + minutes) / 10. "log GPUs" and "log nodes" are log2(1 + number) / 8. "log GB/s" is
log2(1 + GB/s) / 8. All features are limited to -LIMIT ... LIMIT. An empty row is zero in every column.

"Its size" is the GPUs that a job holds, or requests if it holds none. "Its best throughput" is that on its size,
consolidated, on its fastest GPU type.
"""

LIMIT = 2.0

# A job: rows of `jobs`.
(
    JOB_PRESENT,  # 1 for a job, 0 for an empty row
    JOB_CANDIDATE,  # 1 if it is a candidate, which all nodes see
    JOB_WAITING,  # 1 if it holds no GPUs
    JOB_WORK_KNOWN,  # 1 if its remaining work is known or estimated; if not, the columns that need it are 0
    JOB_REMAINING_TIME,  # on the requested GPUs of the fastest type; log time
    JOB_AGE,  # since submission; log time
    JOB_ATTAINED_SERVICE,  # GPU-seconds received so far; log time
    JOB_REQUESTED_GPUS,  # log GPUs
    JOB_MIN_GPUS,  # log GPUs
    JOB_MAX_GPUS,  # log GPUs
    JOB_HELD_GPUS,  # log GPUs
    JOB_PROPOSED_GPUS,  # under the market's proposal; log GPUs
    JOB_HELD_NODES,  # log nodes
    JOB_PROPOSED_NODES,  # log nodes
    JOB_BEGUN,  # 1 if it has received service, so that a change costs a restart
    JOB_STARTING,  # 1 if it runs, but is still starting or restarting
    JOB_RESTART_DELAY,  # what a restart costs it; log time
    JOB_RESTART_SHARE,  # restart delay / (restart delay + remaining time)
    JOB_THROUGHPUT,  # at present, as a fraction of its best
    JOB_CONTENTION,  # fraction of its throughput that co-located jobs take from it
    JOB_CPU_SHORTAGE,  # fraction of its throughput that it lacks for want of cores
    JOB_MEMORY_SHORTAGE,  # the same for memory
    JOB_TYPE_SPREAD,  # 1 - throughput on the slowest GPU type / on the fastest, on its size
    JOB_RUNNABLE,  # GPUs of the types on which it runs with its size, as a fraction of the cluster's
    JOB_CPUS_WANTED,  # cores per GPU at which its throughput saturates on its fastest type / 16; 0 if not shared
    JOB_MEMORY_WANTED,  # GB per GPU, likewise / 256
    JOB_CPU_STAGE,  # fraction of a step that uses the CPUs; 0 without contention
    JOB_TRAFFIC,  # GB/s that it sends between nodes, or would with its size on two nodes; log GB/s
    JOB_EFFICIENCY_1,  # throughput per GPU on its fastest type, relative to one GPU (see `scaling_efficiency`)
    JOB_EFFICIENCY_2,  # with 2 GPUs
    JOB_EFFICIENCY_4,  # with 4 GPUs
    JOB_EFFICIENCY_8,  # with 8 GPUs
) = range(32)

# A node: rows of `nodes`.
(
    NODE_UP,  # 0 while it is down
    NODE_GPUS,  # log GPUs
    NODE_FREE,  # fraction of its GPUs that no job holds
    NODE_JOBS,  # jobs on it, as a fraction of its GPUs
    NODE_CPUS_PER_GPU,  # cores / GPUs / 16
    NODE_MEMORY_PER_GPU,  # GB / GPUs / 256
    NODE_LINK,  # to other nodes; log GB/s
    NODE_CPU_DEMAND,  # cores that its jobs can use / its cores; 0 if not shared
    NODE_MEMORY_DEMAND,  # the same for memory
    NODE_LINK_LOAD,  # traffic of its jobs, each at most the link / link; 0 without contention
    NODE_CPU_STAGE_DEMAND,  # sum of its jobs' CPU stages; 0 without contention
    NODE_SPANNING,  # jobs on it that span nodes, as a fraction of its GPUs
    NODE_TYPE_THROUGHPUT,  # of its GPU type: mean over the listed jobs of the throughput as a fraction of the best
    NODE_TYPE_GPUS,  # GPUs of its type, as a fraction of the cluster's
    NODE_TYPE_FREE,  # fraction of the GPUs of its type that no job holds
    NODE_PROPOSED_FREE,  # fraction of its GPUs that no job would hold under the proposal
    NODE_PROPOSED_CHANGE,  # GPUs that the proposal takes from jobs or gives to jobs here, as a fraction of its GPUs
) = range(17)

# A job on a node: rows of `pairs`, and of an agent's observation. What the job would suffer and give is computed with
# `GPUs here`: those that it holds on the node, or else as many of its size as the node has.
(
    PAIR_PRESENT,  # 1 if the row holds a job
    PAIR_HOLDS,  # 1 if it holds GPUs on the node
    PAIR_GPUS,  # that it holds on the node; log GPUs
    PAIR_PROPOSED_GPUS,  # on the node; log GPUs
    PAIR_THROUGHPUT,  # on its size of this GPU type, as a fraction of its best; 0 where it does not run
    PAIR_FIT,  # GPUs on the node that are free or its own / its size, at most 1
    PAIR_ROOM,  # GPUs that would be left on the node, as a fraction of the node's; negative where GPUs are lacking
    PAIR_SPANS,  # 1 if it spans nodes, or its size exceeds the node
    PAIR_CPU_SHORTAGE,  # fraction of the cores wanted on the node that it would lack, with the job there
    PAIR_CPU_HARM,  # how much of that the job adds
    PAIR_MEMORY_SHORTAGE,  # the same two for memory
    PAIR_MEMORY_HARM,
    PAIR_STAGE_SUFFERED,  # fraction of its throughput that the CPU stages of the others would take (worst case)
    PAIR_STAGE_HARM,  # how much it would stretch the CPU stages of the others, as a fraction
    PAIR_LINK_SUFFERED,  # fraction of its throughput that the traffic of the others would take
    PAIR_LINK_HARM,  # the same from the others' side
    PAIR_MOVE_COST,  # delay of a start or restart here / (delay + remaining time); 0 where it runs
) = range(17)

# What all nodes share: `cluster`.
(
    CLUSTER_WAITING,  # log(1 + waiting jobs) / 5
    CLUSTER_RUNNING,  # log(1 + running jobs) / 5
    CLUSTER_FREE,  # fraction of the GPUs that no job holds
    CLUSTER_DOWN,  # fraction of the GPUs on nodes that are down
    CLUSTER_NODES,  # log nodes
    CLUSTER_GPUS,  # log GPUs
    CLUSTER_WAITING_GPUS,  # GPUs that waiting candidates request / all GPUs
    CLUSTER_BACKLOG,  # remaining time x requested GPUs of all listed jobs / all GPUs; log time
    CLUSTER_CHANGED,  # listed jobs that the proposal changes, as a fraction of the jobs in the system
    CLUSTER_SHARES_CPU_MEMORY,  # 1 if jobs divide the cores and memory of nodes
    CLUSTER_CONTENTION,  # 1 if co-located jobs slow each other
    CLUSTER_WORST_CASE,  # 1 if they do so as in the worst case
    CLUSTER_KNOWS_WORK,  # 1 if remaining work is known or estimated
) = range(13)

# An edge of the coordination graph: rows of `edge_features`, for the same positions of `edges`.
(
    EDGE_CANDIDATES,  # candidates for which both nodes are among the best places / 8
    EDGE_JOBS,  # jobs through which they are linked that hold GPUs on both / 8
    EDGE_GPUS,  # GPUs of these jobs on both nodes; log GPUs
    EDGE_TRAFFIC,  # traffic of these jobs / link of the target
    EDGE_CONTENDED,  # 1 if jobs of the two nodes contend for the link of a node
) = range(5)

# What a node says about a job: columns of an action, each -1 ... 1 times its entry in `BID_SCALE`.
(
    BID_AFFINITY,  # of this node for the job; stays per (job, node)
    BID_APPETITE,  # for more GPUs (or fewer); averaged into the job's growth
    BID_PRIORITY,  # of the job: the lower comes first; averaged, like the rest
    BID_SIZE,
    BID_RESTART,
    BID_CORES,
    BID_BATCH,  # the batch size; only where the scenario lets it be chosen
) = range(7)
BID_SCALE = (
    4.0,
    2.0,
    2.0,
    1.0,
    2.0,
    1.0,
    2.0,
)  # natural logarithms of factors, see `envs.simulation.seen.market.BidArrays`


def names_of(prefix: str) -> tuple[str, ...]:
    """Names of the columns of "JOB", "NODE", "PAIR", "CLUSTER", "EDGE" or "BID", in lower case and in order."""
    start = f"{prefix}_"
    constants = [name for name, value in globals().items() if isinstance(value, int)]
    return tuple(name.removeprefix(start).lower() for name in constants if name.startswith(start))


JOB_COLUMNS, NODE_COLUMNS, PAIR_COLUMNS = names_of("JOB"), names_of("NODE"), names_of("PAIR")
CLUSTER_COLUMNS, EDGE_COLUMNS, BID_COLUMNS = names_of("CLUSTER"), names_of("EDGE"), names_of("BID")
