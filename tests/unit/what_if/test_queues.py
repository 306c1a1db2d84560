"""Two files of queues beside each other, on a trace worked by hand."""

import pytest
import yaml

from murmuration.what_if.asking import ask
from tests.unit.baselines.test_kueue_objects import cluster_queue, local

LAB = """_target_: envs.cluster.build_cluster
name: lab
groups:
  - {gpu_type: V100, num_nodes: 2, num_gpus: 4}
"""
JOBS = """submit_time,num_gpus,duration,team,queue
0,4,2000,b,low
0,4,2000,b,low
300,4,1000,a,high
400,4,1000,c,small
"""


@pytest.fixture
def words(tmp_path):
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "lab.yaml").write_text(LAB)
    (tmp_path / "jobs.csv").write_text(JOBS)
    columns = ["workload.reader.columns.tenant=team", "workload.reader.columns.queue=queue"]
    return [str(tmp_path / "jobs.csv"), "--reader", "csv", *columns, "--cluster", str(tmp_path / "cluster/lab.yaml")]


def queues(folder, name, reclaim, quota):
    own = [
        cluster_queue("research", 4, "all", {"preemption": {"reclaimWithinCohort": reclaim}}),
        cluster_queue("batch", quota, "all"),
        cluster_queue("small", 2, "all", borrowingLimit=0),
    ]
    leads = local("a", "high", "research"), local("b", "low", "batch"), local("c", "small", "small")
    path = folder / name
    path.write_text(yaml.safe_dump_all([*own, *leads]))
    return str(path)


def test_files_of_queues_are_compared(words, tmp_path, capsys):
    """Batch has all 8 GPUs until 2000. Research waits 1700 s for its own 4; with reclaim none, but a job of batch
    stops at 300, and goes on at 1300. Larger quotas than GPUs: it is admitted, and waits as long as today."""
    today, new = queues(tmp_path, "today.yaml", "Never", 2), queues(tmp_path, "new.yaml", "Any", 2)
    more = queues(tmp_path, "more.yaml", "Any", 10)
    options = ["--new-queues", new, "--new-queues", more, "--restart", "0", "--processes", "1", "--out", str(tmp_path)]
    answer = ask([*words, "--queues", today, *options])
    reclaims, promises = answer.others["queues=new.yaml"], answer.others["queues=more.yaml"]
    assert answer.incumbent.wait.tolist()[:3] == promises.wait.tolist()[:3] == [0, 0, 1700]
    assert reclaims.wait.tolist()[:3] == [0, 1000, 0]
    assert (answer.incumbent.stops, reclaims.stops, promises.stops) == (0, 1, 0)
    said = " ".join(capsys.readouterr().out.split())
    assert "fifo_backfill: behind Kueue: 3 queues of 8 GPUs, no fair sharing" in said
    assert "1 jobs of queue small ask for more GPUs than it can ever have, 2, and are never admitted" in said
    assert "quotas sum to 16 GPUs, and the cluster has 8" in said
