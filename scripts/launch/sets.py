"""Sets of schedulers that have a name of their own on the command line."""

EVERYTHING = "all"
GPUS_ALONE = "fast"
FAST = (
    *("fifo", "fifo_backfill", "fifo_easy", "las", "optimus", "random", "srtf", "srtf_gpu_time", "starling"),
    "tiresias",
)  # they decide about GPUs alone, as the agents do, and within milliseconds
