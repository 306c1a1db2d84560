"""Slurm's settings: a `slurm.conf` and dumps of `sacctmgr` as sites have them, and what is wrong with others."""

import math

import pytest

from baselines import Fifo
from baselines.slurm import Slurm
from baselines.slurm.accounting import read_accounting
from baselines.slurm.conf import read_time
from envs.types import MurmurationError
from murmuration.runs.comparing import list_settings_in_force

CONF = """\
# slurm.conf of a cluster with two GPU types
ClusterName=gpu
SlurmctldHost=head(10.0.0.1)
AuthType=auth/munge
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory,CR_LLN
SchedulerType=sched/backfill
SchedulerParameters=bf_window=4320,bf_resolution=120,bf_max_job_test=1000,bf_continue,defer,\\
bf_interval=60,default_queue_depth=200
PriorityType=priority/multifactor   # not the default
PriorityDecayHalfLife=14-0
PriorityMaxAge=3-12
PriorityCalcPeriod=10
PriorityWeightAge=1000
PriorityWeightFairshare=100000
priorityweightqos=2000
PriorityWeightTRES=CPU=1000,GRES/gpu=3000
PriorityFlags=NO_FAIR_TREE,ACCRUE_ALWAYS
PreemptType=preempt/qos
PreemptMode=REQUEUE,GANG
include /etc/slurm/more.conf
NodeName=DEFAULT CPUs=64 RealMemory=512000 Weight=10
NodeName=a[01-08] Gres=gpu:a100:8 State=UNKNOWN
NodeName=h[01-04] Gres=gpu:h100:8 Weight=50
PartitionName=DEFAULT State=UP MaxTime=7-00:00:00 OverSubscribe=NO
PartitionName=batch Nodes=a[01-08],h[01-04] Default=YES
PartitionName=debug Nodes=a01 PriorityTier=10 PriorityJobFactor=100 MaxTime=30 DefaultTime=10:00 MaxNodes=1 LLN=NO
"""
ACCOUNTING = """\
Cluster|Account|User|Partition|Share|Priority|QOS
gpu|root|||1||normal
gpu| root|root||1||normal
gpu| physics|||40||normal
gpu|  lasers|||3||normal
gpu|   lasers|ann||2||high,normal
gpu| biology|||60||normal
gpu|  biology|bob||parent||normal
Name|Priority|GraceTime|Preempt|PreemptMode
normal|0|00:00:00||cluster
high|100|00:00:00|normal|requeue
"""


def test_a_site_file_and_what_overrides_it(tmp_path):
    conf, accounting = tmp_path / "slurm.conf", tmp_path / "accounting.txt"
    conf.write_text(CONF)
    accounting.write_text(ACCOUNTING)
    found = Slurm(
        str(conf),
        str(accounting),
        settings={"PriorityWeightAge": 5, "bf_window": 60, "PriorityFavorSmall": True},
        partitions={"debug": {"PriorityTier": 3, "Default": False}, "night": {}},
        qos={"low": {"Priority": 1}},
        shares={"chemistry": 7, "chemistry/eve": 2},
    ).in_force
    assert (found.weight_age, found.weight_fairshare, found.weight_qos, found.weight_gpus) == (5, 100000, 2000, 3000)
    assert (found.bf_window, found.bf_resolution, found.bf_interval, found.bf_max_job_test) == (3600, 120, 60, 1000)
    assert (found.half_life, found.max_age, found.calc_period) == (14 * 86400, 3.5 * 86400, 600)
    assert (found.default_queue_depth, found.lln, found.favor_small, found.fair_tree) == (200, True, True, False)
    assert (found.preempts, found.preempt_mode, dict(found.weights)) == (True, "REQUEUE", {"a100": 10, "h100": 50})
    debug, night = found.partitions["debug"], found.partitions["night"]
    assert (debug.tier, debug.job_factor, debug.max_time, debug.usual_time, debug.max_nodes) == (3, 100, 1800, 600, 1)
    assert (found.partitions["batch"].default, night.max_time) == (True, 7 * 86400)
    assert (found.qos["high"].priority, found.qos["high"].preempt, found.qos["low"].priority) == (100, ("normal",), 1)
    accounts = {(each.account, each.user): (each.parent, each.shares) for each in found.associations}
    assert accounts["lasers", ""] == ("physics", 3)
    assert accounts["physics", ""] == ("root", 40)
    assert accounts["lasers", "ann"] == ("lasers", 2)
    assert accounts["chemistry", "eve"][1] == 2
    said = "\n".join(Slurm(str(conf), str(accounting)).describe())
    for part in ("age 1000, fair share 100000", "classic", "window 4320 min", "by qos", "debug: tier 10", "high 100"):
        assert part in said
    for left_out in (
        "OverSubscribe",
        "Include",
        "SchedulerParameters=defer",
        "PriorityFlags=ACCRUE_ALWAYS",
        "Share=parent",
    ):
        assert left_out in said.rpartition("not modelled: ")[2]
    assert "SchedulerType" not in said


def test_defaults_are_those_of_slurm():
    found = Slurm().in_force
    assert (found.bf_window, found.bf_interval, found.bf_resolution, found.bf_max_job_test) == (86400, 30, 60, 500)
    assert (found.default_queue_depth, found.sched_interval, found.calc_period) == (100, 60, 300)
    assert (found.max_age, found.half_life, found.fair_tree, found.preempts) == (604800, 604800, True, False)
    said = list(list_settings_in_force({"slurm": Slurm(), "fifo": Fifo()}))
    assert said[0].startswith("slurm: priority: order of submission")
    assert len(said) == 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("1-0:30", 88200), ("UNLIMITED", math.inf)],
)
def test_times(text, seconds):
    assert read_time(text) == seconds


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("PriorityWeightAge=much", r"slurm.conf:2: PriorityWeightAge is 'much'; it must be a number from 0"),
        ("PriorityMaxAge=soon", r"slurm.conf:2: PriorityMaxAge is 'soon'; it must be a time: minutes"),
        ("PriorityFavorSmall=perhaps", r"slurm.conf:2: .* it must be one of YES, NO"),
        ("SchedulerParameters=bf_window=0", r"slurm.conf:2: bf_window is '0'; it must be a number from 1 to 43200"),
        ("PreemptMode=SHOOT", r"slurm.conf:2: PreemptMode is 'SHOOT'; it must be one of OFF, REQUEUE"),
        ("PartitionName=a PriorityTier=-1", r"slurm.conf:2: PriorityTier is '-1'; it must be a whole number"),
        ("PartitionName a", r"slurm.conf:2: 'PartitionName a' is no setting; write Name=value"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, said):
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"# first\n{line}\n")
    with pytest.raises(MurmurationError, match=said) as error:
        Slurm(str(conf)).describe()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"settings": {"PriorityWeightAges": 1}}, "is no setting that is modelled; did you mean PriorityWeightAge"),
        ({"settings": {"bf_window": 0}}, "scheduler.settings: bf_window is '0'"),
        ({"partitions": {"a": {"Nodes": "n1", "Tier": 1}}}, "scheduler.partitions.a: Tier is not modelled"),
        ({"qos": {"a": {"Priority": -1}}}, "scheduler.qos.a: Priority is '-1'"),
        ({"shares": {"a": -1}}, "scheduler.shares.a is -1"),
        ({"conf": "nowhere/slurm.conf"}, "nowhere/slurm.conf: cannot be read"),
        ({"accounting": "nowhere.txt"}, "nowhere.txt: cannot be read .*; make it with .sacctmgr"),
    ],
)
def test_a_wrong_setting_is_named(given, said):
    with pytest.raises(MurmurationError, match=said):
        Slurm(**given).describe()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", r":1: has 1 fields where its header has 0"),
        ("", "has no table of sacctmgr"),
        ("Account|User|Share\na|b\n", ":2: has 2 fields where its header has 3"),
        ("Account|User|Share\na|b|x\n", ":2: Share is 'x'"),
        ("Name|Priority\nhigh|x\n", ":2: Priority is 'x'"),
        ("Name|Priority|PreemptMode\nhigh|1|often\n", ":2: PreemptMode is 'OFTEN'"),
    ],
)
def test_a_wrong_dump_is_named(tmp_path, text, said):
    path = tmp_path / "accounting.txt"
    path.write_text(text)
    with pytest.raises(MurmurationError, match=said):
        read_accounting(path)
