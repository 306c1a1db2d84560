"""Every workload under conf/workload can be built without its file and offers the load that its comment states."""

from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from envs.performance import DrawnModel, default_model
from envs.types.units import DAY
from envs.workloads import SyntheticSource, TraceSource
from envs.workloads.readers import locate
from envs.workloads.splits import demand_within

CONF = Path(__file__).parents[3] / "conf"
PRESETS = sorted((CONF / "workload").glob("*.yaml"))
ZOO = default_model()
DRAWN = DrawnModel()  # the same for names without a draw

# preset -> offered load on the recommended cluster: (all, train, validation, test), as the YAML comments state it
LOADS = {
    "philly_whole": (0.78, 0.62, 0.87, 0.92),
    "philly": (0.89, 0.93, 0.83, 0.89),
    "itp": (0.88, 1.08, 0.61, 0.83),
    "muri": (0.80, 1.10, 1.01, 0.89),
    "rubick": (0.70, 0.76, 0.61, 0.58),
}
# preset -> windows for (train, validation, test); least, middle and most demand of those for test, by the comments
WINDOWS = {"philly_64": ((15, 12, 47), (0.40, 0.56, 1.10)), "itp_64": ((16, 14, 54), (0.41, 0.64, 1.46))}
JOBS = {"philly_whole": 25_867, "philly": 20_658, "itp": 1_375, "muri": 992, "rubick": 406}


def preset(name: str, cluster: str = "", **changes: object) -> SyntheticSource | TraceSource:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        composed = compose(config_name=f"workload/{name}").workload
    OmegaConf.set_struct(composed, False)
    config = OmegaConf.merge(composed, changes)
    assert isinstance(config, DictConfig)
    chosen = cluster or config.get("recommended_cluster", "homogeneous_64")
    made = instantiate(OmegaConf.load(CONF / "cluster" / f"{chosen}.yaml"))
    source = instantiate(config, _convert_="all", _partial_=True)(cluster=made, performance=DRAWN)
    assert isinstance(source, SyntheticSource | TraceSource)
    return source


@pytest.mark.parametrize("name", [path.stem for path in PRESETS])
def test_each_preset_builds_without_reading_a_file(name, monkeypatch):
    monkeypatch.setenv("MURMURATION_DATA", "/nowhere")
    source = preset(name)
    assert source.name == name
    assert source.num_jobs >= 60
    if isinstance(source, TraceSource):
        assert source.recommended_cluster in ("", source.cluster.name)  # none for files of the user's own
        assert {"train", "validation", "test"} <= set(source.splits)


def test_every_trace_and_every_task_has_a_preset():
    assert {path.stem for path in PRESETS} >= {
        *("synthetic", "synthetic_philly", "philly_whole", "philly", "itp", "muri", "rubick"),
        *("csv", "slurm", "swf", "philly_raw", "helios", "pai", "gavel", "tiresias"),
        *("acme", "openb", "spot"),
        *("calm", "bursty", "overload", "rigid", "plans", "adaptive", "bursty_16", "bursty_large", "batch"),
        *("philly_64", "itp_64", "drawn_curves", "drawn_curves_24", "users"),
    }


@pytest.mark.parametrize("cluster", ["homogeneous_64", "three_types_64", "small_16", "a800_64"])
def test_the_demo_offers_its_load_on_every_cluster(cluster):
    source = preset("synthetic", cluster)
    assert len(source.evaluation()) == 5
    for workload in source.evaluation():
        assert len(workload) == 100
        assert workload.offered_load(source.cluster, ZOO)["all"] == pytest.approx(0.9)
        assert (workload.jobs["max_gpus"] > workload.jobs["min_gpus"]).any()


def test_a_mistyped_key_is_an_error():
    with pytest.raises(Exception, match="unexpected keyword argument 'elastci'"):
        preset("muri", elastci=2.0)


@pytest.mark.parametrize("name", LOADS)
def test_offered_load_is_what_the_comment_states(name, real_data):
    source = preset(name)
    assert isinstance(source, TraceSource)
    source.path = str(real_data(source.reader.location))
    for split, stated in zip(("all", "train", "validation", "test"), LOADS[name], strict=True):
        load = source.evaluation(split)[0].offered_load(source.cluster, ZOO)["all"]
        # The other presets have run times on the cluster's own GPU type, so their loads follow from the trace alone.
        # Rubick states steps, whose time follows from the zoo's throughputs.
        assert load == pytest.approx(stated, abs=0.006 if name != "rubick" else 0.05)
    assert len(source.workload) == JOBS[name]
    assert 0.69 <= source.workload.offered_load(source.cluster, ZOO)["all"] <= 1.0
    text = (CONF / "workload" / f"{name}.yaml").read_text()
    assert all(f"{stated:.2f}" in text for stated in LOADS[name])


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_traces_are_those_that_the_comment_states(name, real_data):
    source = preset(name)
    assert isinstance(source, TraceSource)
    source.path = str(real_data(source.reader.location))
    counts, stated = WINDOWS[name]
    parts = {split: source.evaluation(split) for split in ("train", "validation", "test")}
    assert tuple(map(len, parts.values())) == counts
    demand = [demand_within(window, 2 * DAY, source.cluster.num_gpus) for window in parts["test"]]
    assert np.percentile(demand, [0, 50, 100]) == pytest.approx(stated, abs=0.006)
    for windows in parts.values():
        assert all(len({job.tenant for job in window}) == 1 and window.measured.sum() >= 10 for window in windows)
    text = " ".join((CONF / "workload" / f"{name}.yaml").read_text().replace("\n#", "").split())
    assert f"leaves {counts[2]} of" in text
    assert f"{counts[1]} for validation, {counts[0]} of the training days" in text
    assert f"demand from {stated[0]:.2f} to {stated[2]:.2f}, the middle one {stated[1]:.2f}" in text


def test_a_preset_without_its_file_says_how_to_give_it(monkeypatch):
    monkeypatch.delenv("MURMURATION_DATA", raising=False)
    source = preset("helios")
    assert isinstance(source, TraceSource)
    with pytest.raises(ValueError, match=r"helios trace: no file given; .*workload\.path=<file>"):
        locate(source.reader, source.path)
