"""Pictures and films of episodes: what they show, that nothing is clipped, and the wrappers that record them."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

import envs.registration  # noqa: F401  the ids
from baselines import Srtf
from envs.bidding import BiddingEnv
from envs.cluster import NodeGroup, build_cluster
from envs.episodes import film
from envs.episodes.drawing import (
    BARS,
    BASE,
    COLOURS,
    EMPTY,
    WIDTH,
    Layout,
    Palette,
    adjacent_jobs,
    brief,
    clock,
    draw_scene,
    font,
    ink_on,
    shorten_to,
)
from envs.episodes.film import film_episode, write_film
from envs.episodes.scene import DOWN, FREE, Scene, SceneJob, describe_scene
from envs.options import OptionEnv, OptionRules
from envs.performance import default_model
from envs.simulation import Scenario, Setup, Simulator
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, Curved
from tests.unit.episodes.players import Fixed, bursts, jobs_like

SETUP = Setup(HOMOGENEOUS, Curved())
SOURCE = Fixed(*(bursts(seed) for seed in range(4)))
TURNS = OptionRules(turn="turns")


def scene_of(num_nodes: int, num_gpus: int = 8, waiting: int = 0, **fields) -> Scene:
    """Nodes whose first GPU is held by the job of the node's number."""
    owners = [np.array([n, *[FREE] * (num_gpus - 1)]) for n in range(num_nodes)]
    queue = [SceneJob(job, 1, 60.0, 1e5) for job in range(waiting)]
    running = [SceneJob(n, 1, 60.0, 7e5) for n in range(num_nodes)]
    types = ("V100",) * num_nodes
    known = {"cores": None, "memory": None, "running": running, "num_free": 0, "num_done": 0}
    return Scene(0.0, types, owners, waiting=queue, mean_jct=float("nan"), **{**known, **fields})


def pixel(frame, x, y):
    return tuple(frame[round(y), round(x)].tolist())


@pytest.mark.parametrize("num_nodes", [1, 3, 40, 1024])
def test_every_gpu_is_drawn_in_its_own_place(num_nodes):
    scene = scene_of(num_nodes)
    palette = Palette()
    frame, layout = draw_scene(scene, palette), Layout(scene)
    assert frame.shape == (layout.height, WIDTH, 3)
    assert frame.dtype == np.uint8
    for n in range(0, num_nodes, max(num_nodes // 7, 1)):
        top = layout.corner(n)[1] + 3
        assert pixel(frame, round(layout.cells(n)), top) == palette.colour(n)
        assert pixel(frame, round(layout.cells(n) + 7 * layout.cell), top) == EMPTY
        assert layout.cells(n) + 8 * layout.cell <= layout.queue


def test_the_picture_has_one_size_whatever_happens():
    plain = draw_scene(scene_of(4)).shape
    assert draw_scene(scene_of(4, waiting=200)).shape == plain
    assert draw_scene(scene_of(4, cores=np.ones(4), memory=np.zeros(4), bids=[(3, 0.5)] * 4)).shape == plain
    assert draw_scene(scene_of(4, title="a long name " * 30, tells=True)).shape == plain
    assert draw_scene(scene_of(4, edges=np.array([[0, 3], [3, 0]]))).shape == plain
    told, silent = scene_of(4), scene_of(4)
    told = told.with_notes(np.array([[0, 3]]), np.array([2.0]), ["start job 7 on 2, 40%"] * 4, ["node 0: start"], 4)
    silent = silent.with_notes(np.zeros((0, 2), np.int64), np.zeros(0), [], [], 4)
    assert draw_scene(told).shape == draw_scene(silent).shape


def test_nothing_is_drawn_over_the_edge():
    """The last row and column stay white, with a full queue and long labels."""
    long = scene_of(4, cores=np.ones(4)).with_notes(
        np.array([[0, 3]]), np.ones(1), ["resize job 9999 to 16, 100%"] * 4, ["node 3: start job 9999 on 16"], 4
    )
    bids = scene_of(4, cores=np.ones(4), memory=np.ones(4), bids=[(9999, -1.0)] * 4, title="x" * 500)
    for scene in (scene_of(33, waiting=500), bids, long):
        frame = draw_scene(scene)
        assert (frame[-3:] == 255).all()
        assert (frame[:, -3:] == 255).all()


def test_what_a_node_wants_does_not_reach_the_edges():
    layout = Layout(scene_of(4, tells=True))
    assert BARS + font(10).getlength("resize job 999 to 16, 100%") < layout.edges - layout.bars(0)
    assert Layout(scene_of(4, num_gpus=16, tells=True)).cell >= 22, "numbers are written into the cells"


def test_bars_show_shares_of_cores_and_memory():
    scene = scene_of(1, cores=np.array([0.5]), memory=np.array([0.0]))
    frame, layout = draw_scene(scene), Layout(scene)
    left, top = layout.bars(0), layout.corner(0)[1] + 5
    assert pixel(frame, left + 20, top) == (0, 114, 178)
    assert pixel(frame, left + 50, top) == (255, 255, 255)


def test_a_scene_is_read_from_the_engine():
    """One job of two GPUs runs, one waits for 3 s; the world has given the first all that it can use."""
    cluster = build_cluster("one", [NodeGroup("V100", 1, 2)])
    setup = Setup(cluster, default_model(), Scenario(cpu_memory="shared"))
    workload = Workload.of([JobSpec(0, 0.0, 2, 1e5, "resnet50"), JobSpec(1, 5.0, 1, 1e3, "resnet18")])
    simulator = Simulator(workload, setup)
    for view in simulator.rounds():
        if view.time >= 5.0:
            break
        allocation = view.allocation()
        allocation.pack(0)
        simulator.apply(allocation)
    scene = Scene.of(simulator.state, cluster)
    assert (scene.time, scene.num_free, scene.num_done) == (5.0, 0, 0)
    left = float(simulator.state.jobs[0]["finish"][0]) - 5.0
    assert scene.running == [SceneJob(0, 2, 5.0, left)]
    assert scene.at(8.0).running == [SceneJob(0, 2, 8.0, left - 3.0)]
    assert [row.tolist() for row in scene.owners] == [[0, 0]]
    (waits,) = scene.waiting
    assert (waits.job, waits.num_gpus, waits.age) == (1, 1, 0.0)
    assert np.isnan(waits.left), "nobody has said how long it takes"
    (waits,) = Scene.of(simulator.state, cluster, ideal=np.array([50.0, 70.0])).at(8.0).waiting
    assert (waits.age, waits.left) == (3.0, 70.0)
    assert scene.cores is not None
    assert 0 < scene.cores[0] <= 1
    assert np.isnan(scene.mean_jct)
    assert describe_scene(scene).splitlines()[1].split() == ["node_0", "V100", "|", "0", "0"]


def test_the_text_marks_nodes_that_are_down():
    scene = replace(scene_of(2), owners=[np.full(2, DOWN), np.array([5, FREE])])
    assert [line.split("|")[1].split() for line in describe_scene(scene).splitlines()[1:]] == [["x", "x"], ["5", "."]]


def test_pictures_show_which_job_has_which_gpu():
    source = Fixed(jobs_like((0, 2, 10), (0, 2, 10)))
    env = OptionEnv(Setup(HETEROGENEOUS, Curved()), source, TURNS, render_mode="rgb_array")
    observations, _ = env.reset(seed=0)
    empty, layout = env.render(), Layout(env.scene())
    assert isinstance(empty, np.ndarray)
    assert pixel(empty, layout.cells(0) + 3, layout.corner(0)[1] + 3) == EMPTY
    assert pixel(empty, layout.cells(2) + 3.5 * layout.cell, layout.corner(2)[1] + 9) == (
        255,
        255,
        255,
    )  # two GPUs only
    env.step({agent: int(np.flatnonzero(seen["action_mask"])[-1]) for agent, seen in observations.items()})
    assert not np.array_equal(draw_scene(env.scene()), empty)


def test_bids_and_edges_of_the_bidding_environment_are_shown():
    env = BiddingEnv(SETUP, SOURCE, render_mode="rgb_array")
    env.reset(seed=0)
    silence = {agent: np.zeros(env.action_space(agent).shape, np.float32) for agent in env.agents}
    env.step(silence)
    assert env.scene().bids == [(FREE, 0.0)] * 3
    rows = env.batch.observation["pair_jobs"][0]
    pair = int(np.flatnonzero(rows[1] >= 0)[0])
    job = int(env.batch.auction.arrays.listed[0][rows[1, pair]])
    silence["node_1"][pair, 2] = -0.75
    env.step(silence)
    assert env.scene().bids == [(FREE, 0.0), (job, -0.75), (FREE, 0.0)]
    assert len(env.scene().edges) == env.batch.observation["num_edges"][0, 0]
    env.reset()
    assert env.scene().bids == []


def test_a_window_is_drawn_at_every_step_and_closed(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame")
    monkeypatch.setitem(OptionEnv.metadata, "render_fps", 1000)
    env = OptionEnv(SETUP, SOURCE, TURNS, render_mode="human")
    env.reset(seed=0)
    surface = pygame.display.get_surface()
    before = pygame.surfarray.array3d(surface)
    for _ in range(6):
        env.step(dict.fromkeys(env.agents, 1))
    assert not np.array_equal(pygame.surfarray.array3d(surface), before)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    env.step(dict.fromkeys(env.agents, 1))
    assert pygame.display.get_surface() is None
    env.step(dict.fromkeys(env.agents, 1))  # a closed window stays closed
    env.close()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min 0 s"), (3725, "1 h 2 min"), (90000, "1 d 1 h"), (7, "7 s")]
)
def test_clocks_show_the_two_largest_units(seconds, text):
    assert clock(seconds) == text


def test_jobs_side_by_side_differ_in_colour_and_keep_it():
    """Jobs 0 to 39 on one node each, then other jobs between them; the two columns of 20 nodes are not adjacent."""
    scene, palette = scene_of(40), Palette()
    palette.update(scene, 20)
    before = [palette.colour(job) for job in range(40)]
    assert adjacent_jobs(scene, 20)[19] == {18}
    moved = [np.array([n, 100 + n, *row[2:]]) for n, row in enumerate(scene.owners)]
    palette.update(replace(scene, time=9.0, owners=moved), 20)
    assert [palette.colour(job) for job in range(40)] == before
    for job, others in adjacent_jobs(replace(scene, owners=moved), 20).items():
        assert palette.colour(job) not in {palette.colour(other) for other in others}
    palette.update(replace(scene, time=1.0, owners=moved[20:]), 20)
    assert palette.colour(0) is None, "another episode has begun"


def test_few_jobs_have_colours_and_hues_of_their_own():
    palette = Palette()
    palette.update(scene_of(7), 7)
    assert {palette.colour(job) for job in range(7)} == set(COLOURS[: len(BASE)])


@pytest.mark.parametrize(("seconds", "text"), [(7, "7 s"), (90, "2 min"), (5400, "1.5 h"), (216000, "2.5 d")])
def test_times_of_the_list_have_one_unit(seconds, text):
    assert brief(seconds) == text


def test_titles_are_cut_to_their_room():
    assert shorten_to("short", 100, font(14)) == "short"
    assert font(14).getlength(shorten_to("long " * 30, 100, font(14))) <= 100


def test_colours_differ_and_have_readable_numbers():
    assert len(set(COLOURS)) == 21
    for colour in COLOURS:
        light = [(0.2126 * r + 0.7152 * g + 0.0722 * b) / 255 for r, g, b in (colour, ink_on(colour))]
        assert abs(light[0] - light[1]) > 0.4


@pytest.mark.parametrize("ending", [".gif", ".mp4"])
def test_a_film_has_evenly_spaced_pictures(tmp_path, ending):
    if ending == ".mp4":
        av = pytest.importorskip("av")
    frames = film_episode(Srtf(), bursts(0), SETUP, seed=0, num_frames=12)
    assert len(frames) == 13
    assert len({frame.shape for frame in frames}) == 1
    assert len({frame.tobytes() for frame in frames}) > 8
    path = tmp_path / f"film{ending}"
    write_film(frames, path, fps=5)
    if ending == ".gif":
        with Image.open(path) as picture:
            assert getattr(picture, "n_frames", 1) == 13
            assert picture.info["duration"] == 200
    else:
        with av.open(str(path)) as container:
            assert sum(1 for _ in container.decode(video=0)) == 13


def test_films_that_cannot_be_written_are_refused(tmp_path, monkeypatch):
    frame = draw_scene(scene_of(1))
    for frames, name in (([frame], "film.avi"), ([], "film.gif")):
        with pytest.raises(MurmurationError, match="it needs at least one of each, and a name that ends with .gif"):
            write_film(frames, tmp_path / name, fps=5)
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(MurmurationError, match="MP4 needs PyAV; install it with"):
        film.write_film([frame], tmp_path / "film.mp4", fps=5)
    with pytest.raises(MurmurationError, match="frames is 0; it must be at least 1"):
        film_episode(Srtf(), bursts(0), SETUP, seed=0, num_frames=0)


def test_gymnasiums_recorder_writes_a_video(tmp_path):
    pytest.importorskip("moviepy")
    made = gymnasium.make("murmuration/Options-v0", setup=SETUP, source=SOURCE, render_mode="rgb_array")
    recorded: Any = gymnasium.wrappers.RecordVideo(made, str(tmp_path), episode_trigger=lambda _: True, video_length=4)
    recorded.reset(seed=0)
    for _ in range(5):
        recorded.step(recorded.action_space.sample())
    recorded.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]


def test_pettingzoos_recorder_writes_a_video(tmp_path):
    pytest.importorskip("moviepy")
    from pettingzoo.utils.wrappers.record_video_parallel import RecordVideoParallel

    env = BiddingEnv(SETUP, SOURCE, render_mode="rgb_array")
    recorded = RecordVideoParallel(env, str(tmp_path), episode_trigger=lambda _: True, video_length=4)
    recorded.reset(seed=0)
    for _ in range(5):
        recorded.step({agent: env.action_space(agent).sample() for agent in env.agents})
    recorded.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]
