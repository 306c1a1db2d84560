"""Microsoft Philly, processed: one row per job, `timestamp,duration,num_gpus,gpu_time,cluster`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from envs.workloads.readers.clock import midnight_before
from envs.workloads.readers.report import ReadReport
from envs.workloads.readers.table import MAX_GPUS, read_csv

VIRTUAL_CLUSTERS = "workload.reader.virtual_clusters"  # the setting, for messages
CLOCK_NOTE = (
    "times are local, without a stated zone, and are used unchanged: the two passes of the hour that the clock "
    "change of 2017-11-05 repeats are not distinguished"
)


@dataclass(frozen=True)
class PhillyTrace:
    """The jobs of virtual clusters, September to December 2017 (Jeon et al., ATC'19; philly-traces, CC-BY-4.0).

    The archive does not contain this file. It is a processed subset of the archive's 117,325 jobs, published as
    simulator/traces/philly.csv on the branch osdi21-artifact of adaptdl (Pollux, OSDI'21): 82,247 rows of 15 virtual
    clusters. Figures here are on its 73,313 rows of 13 virtual clusters, without b436b2 and ee9e8c. A row has the time
    of submission (`timestamp`), run time in seconds (`duration`), GPUs (`num_gpus`), the product of both (`gpu_time`,
    not read) and virtual cluster (`cluster`). `PhillyRawTrace` reads the archive's own `cluster_job_log`.

    The processed file is not in order of time and repeats 63 of these rows, which are left out. t = 0 is the midnight
    before the first job. Virtual clusters become tenants. The file names neither models nor GPU types: models are
    assigned afterwards, and P100 as the GPU type is an assumption.

    Args:
        virtual_clusters: the virtual clusters to keep; all if empty.
        timezone: IANA name of the zone of the times, such as America/Los_Angeles; None uses them unchanged.
    """

    virtual_clusters: Sequence[str] = ()
    gpu_type: str = "P100"
    gpus_per_node: int = 8
    timezone: str | None = None
    name: ClassVar[str] = "philly"
    location: ClassVar[str] = "traces/philly/philly_jobs.csv.gz"
    source: ClassVar[str] = (
        "github.com/petuum/adaptdl, branch osdi21-artifact, simulator/traces/philly.csv; the archive of "
        "github.com/msr-fiddle/philly-traces has cluster_job_log instead, for workload=philly_raw"
    )

    def read(self, path: Path, *, strict: bool = False) -> tuple[pd.DataFrame, ReadReport]:
        """Return the jobs and the report; see `TraceReader.read`."""
        table = read_csv(self.name, path, ("timestamp", "duration", "num_gpus", "cluster"), strict=strict)
        submit = table.times("timestamp", timezone=self.timezone)
        duration = table.numbers("duration")
        num_gpus = table.numbers("num_gpus", high=MAX_GPUS, whole=True)
        tenant = table.text("cluster")
        table.skip_duplicates()
        table.skip_idle(duration, num_gpus)
        first = submit[table.sound].min(initial=np.inf)  # over all virtual clusters, so that t = 0 is the same for each
        if self.virtual_clusters:
            table.select("cluster", self.virtual_clusters, VIRTUAL_CLUSTERS, "other virtual clusters")
        columns = {"submit_time": submit, "duration": duration, "num_gpus": num_gpus, "tenant": tenant}
        notes = (CLOCK_NOTE,) if self.timezone is None else ()
        return table.finish(columns, notes=notes, origin=midnight_before(first, self.timezone))
