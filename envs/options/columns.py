"""Columns of the feature rows that a policy sees: options, jobs, nodes and the cluster.

The kernels, the reference implementation and `agents` index features by these names. No column depends on how many GPU
types, nodes or jobs there are, so that a policy can be used on any cluster.

Rows of every world have all columns, and are 0 in those of a rule that the world does not have, so that one network
serves all. No column has a unit: the same world with all times, all throughputs, or nodes and jobs multiplied looks the
same.

Scaling: "relative time" is a logarithm, see `envs.options.units`. "Doublings" are log2 / 4. "/ node" is divided by the
GPUs of the largest node. "As a fraction" lies between 0 and 1. Ratios are limited to `RATIO_LIMIT`.
"""

RATIO_LIMIT = 4.0

# Kinds of options. WAIT ends a node's part of the round; each of the others carries out one change of the draft.
(
    WAIT,
    START,  # a waiting job gets GPUs of a node; below its minimum it is a gang that further nodes must join
    JOIN,  # a job that holds GPUs elsewhere gets GPUs of this node too
    RESIZE,  # a job that runs on the node gets another number of its GPUs
    MOVE,  # a running job goes to this node, with as many GPUs as it has
    EVICT,  # a running job returns to the queue
    TUNE,  # a job gets another batch size, or another level of cores or memory, on the GPUs that it has
    SHARE,  # a waiting job shares the GPUs of another one, whose first node has the option
) = range(8)
ACTION_NAMES = ("wait", "start", "join", "resize", "move", "evict", "tune", "share")

# An option: what would be so after it.
(
    OPTION_WAIT,  # 1 for this kind of option, else 0; the next five likewise
    OPTION_START,
    OPTION_JOIN,
    OPTION_RESIZE,
    OPTION_MOVE,
    OPTION_EVICT,
    OPTION_GPUS,  # GPUs of the job; / node
    OPTION_GPUS_HERE,  # of these, on this node; / node
    OPTION_GPUS_CHANGE,  # more GPUs for the job than it has in the draft / those that it requested
    OPTION_OF_REQUEST,  # GPUs of the job over those that it requested; doublings; 0 for none
    OPTION_RUN_TIME,  # estimated time from now until the job is done, without contention; relative; 0 if unknown
    OPTION_GPU_TIME,  # the same times its GPUs; relative
    OPTION_TIME_SAVED,  # by how much a running job would be done earlier: OPTION_RUN_TIME now minus then
    OPTION_THROUGHPUT,  # of the job / that on the GPUs that it requested, of its fastest type
    OPTION_EFFICIENCY,  # throughput per GPU / that on the GPUs that it requested, of its fastest type
    OPTION_TYPE_LOSS,  # fraction of throughput lost because the node's type is not the fastest for the job
    OPTION_SPREAD,  # log2(1 + nodes of the job) / 3
    OPTION_RESTART,  # its start or restart delay, as a fraction of that and its remaining time
    OPTION_FREE_AFTER,  # GPUs that remain free on the node; / node
    OPTION_FULL,  # 1 if none does
    OPTION_OF_FAIR_SHARE,  # x / (1 + x) for the GPUs of the job / GPUs of the cluster for each job in the system
    OPTION_CPU_SHORTAGE,  # these eight: what job and co-located jobs do to each other, see `envs.episodes.coupling`
    OPTION_CPU_HARM,
    OPTION_MEMORY_SHORTAGE,
    OPTION_MEMORY_HARM,
    OPTION_STAGE_SUFFERED,
    OPTION_STAGE_HARM,
    OPTION_LINK_SUFFERED,
    OPTION_LINK_HARM,
    OPTION_TUNE,  # 1 for this kind of option
    OPTION_BATCH,  # of a tuning: batch size over the usual one; doublings; 0 for the usual one
    OPTION_CPUS,  # of a tuning: cores that the job may use / those that saturate it; 0 for what the world gives it
    OPTION_MEMORY,  # the same for memory
    OPTION_DOUBT,  # standard deviation of the logarithm of the throughput that it would have; 0 if exact
    OPTION_DOUBT_CHANGE,  # by how much that is more than for the present placement of a job that runs
    OPTION_SAMPLES,  # log(1 + how often this throughput was measured) / 2
    OPTION_SHARE,  # 1 for this kind of option
    OPTION_LOSES,  # fraction of its throughput that the job loses beside a partner on the same GPUs, after it
    OPTION_PARTNER_LOSES,  # the same of the partner
    OPTION_PARTNER_TIME,  # the partner's JOB_REMAINING_TIME; 0 without a partner
    OPTION_PARTNER_REGAINS,  # fraction of its throughput that a present partner has more if the job leaves
    NUM_OPTION_COLUMNS,
) = range(42)

# A job that some option is about.
(
    JOB_WAITS,  # 1 if it needs GPUs in the draft
    JOB_RUNS,  # 1 if it ran when the round began
    JOB_CHANGED,  # 1 if this round's draft has changed it
    JOB_RANK,  # candidates before it in the queue, without its equals, as a fraction; 0 for a job that does not wait
    JOB_FIRST,  # 1 if none is
    JOB_REMAINING_TIME,  # estimated, on the requested GPUs of the fastest type; relative; 0 if work is unknown
    JOB_GPU_TIME,  # the same times these GPUs; relative
    JOB_AGE,  # since submission; relative to the mean of the jobs in the system
    JOB_ATTAINED_SERVICE,  # GPU-seconds received so far; relative to this mean
    JOB_REQUESTED_GPUS,  # / node
    JOB_MIN_GPUS,  # / those that it requested
    JOB_MAX_GPUS,  # over those that it requested; doublings
    JOB_GPUS,  # in the draft, over those that it requested; doublings; 0 for none
    JOB_SPREAD,  # log2(1 + its nodes in the draft) / 3
    JOB_RESTART_DELAY,  # as a fraction of that and its remaining time, or if that is unknown its age
    JOB_CONTENTION,  # fraction of its throughput that it loses to co-located jobs now
    JOB_LACKS_CPUS,  # fraction of its throughput that it lacks for cores now
    JOB_LACKS_MEMORY,  # the same for memory
    JOB_EFFICIENCY,  # four columns: throughput per GPU on 1, 2, 4, 8 GPUs, see `envs.episodes.candidates`
) = range(19)
NUM_SCALING_COLUMNS = 4
# As of options, in the draft; doubt and samples of the throughput on the GPUs that it requested, one node of its
# fastest type. Low and high: JOB_REMAINING_TIME if little and if much of what is predicted is left, the quarter and
# three quarters of the outcomes that the job has not outlived; 0 where work is not predicted. JOB_SHARES: 1 if it has a
# partner.
JOB_BATCH, JOB_CPUS, JOB_MEMORY, JOB_DOUBT, JOB_SAMPLES, JOB_TIME_LOW, JOB_TIME_HIGH, JOB_SHARES, JOB_LOSES = range(
    JOB_EFFICIENCY + NUM_SCALING_COLUMNS, JOB_EFFICIENCY + NUM_SCALING_COLUMNS + 9
)
NUM_JOB_COLUMNS = JOB_LOSES + 1

# A node.
(
    NODE_FREE,  # GPUs that no job holds in the draft; / node
    NODE_GPUS,  # / node
    NODE_JOBS,  # jobs in the draft; / node
    NODE_TYPE_THROUGHPUT,  # throughput on one GPU of its type / that of the fastest, mean over the jobs with options
    NODE_CPU_DEMAND,  # cores that its jobs can use / cores
    NODE_MEMORY_DEMAND,  # the same for memory
    NODE_LINK_LOAD,  # traffic of its jobs / its link
    NODE_DOWN,  # 1 while it has failed
    NODE_RANK,  # drawn for this sub-round, in 0 to 1, where nodes act together with `OptionRules.ranks`; else 0
    NUM_NODE_COLUMNS,
) = range(10)

# The cluster.
(
    CLUSTER_WAITING,  # waiting jobs, as a fraction of those in the system
    CLUSTER_RUNNING,  # jobs that ran when the round began / all GPUs
    CLUSTER_FREE,  # GPUs that no job holds in the draft, as a fraction of all
    CLUSTER_WAITING_PER_GPU,  # waiting jobs / all GPUs
    CLUSTER_DECISIONS,  # decisions taken in this round / the most that a round may have
    CLUSTER_GANG,  # 1 while a gang is being put together
    CLUSTER_AGE,  # mean age of the jobs in the system; relative time; 0 if work is unknown
    NUM_CLUSTER_COLUMNS,
) = range(8)

# Columns that change in rows of jobs that a decision does not concern, see `envs.options.carrying`.
CHANGING_JOB = (JOB_RANK, JOB_FIRST)

OPTION_COLUMNS = (
    *(f"is_{name}" for name in ACTION_NAMES[:TUNE]),
    *("gpus", "gpus_here", "gpus_change", "of_request", "run_time", "gpu_time", "time_saved", "throughput"),
    *("efficiency", "type_loss", "spread", "restart", "free_after", "full", "of_fair_share"),
    *("cpu_shortage", "cpu_harm", "memory_shortage", "memory_harm"),
    *("stage_suffered", "stage_harm", "link_suffered", "link_harm"),
    *("is_tune", "batch", "cpus", "memory", "doubt", "doubt_change", "samples"),
    *("is_share", "loses", "partner_loses", "partner_time", "partner_regains"),
)
JOB_ROW_COLUMNS = (
    *("waits", "runs", "changed", "rank", "first", "remaining_time", "gpu_time", "age", "attained_service"),
    *("requested_gpus", "min_gpus", "max_gpus", "gpus", "spread", "restart_delay", "contention"),
    *("lacks_cpus", "lacks_memory", "efficiency_1", "efficiency_2", "efficiency_4", "efficiency_8"),
    *("batch", "cpus", "memory", "doubt", "samples", "time_low", "time_high", "shares", "loses"),
)
NODE_COLUMNS = ("free", "gpus", "jobs", "type_throughput", "cpu_demand", "memory_demand", "link_load", "down", "rank")
CLUSTER_COLUMNS = ("waiting", "running", "free", "waiting_per_gpu", "decisions", "gang", "age")
