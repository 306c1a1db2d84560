"""Films of an episode: GIF with Pillow, MP4 with PyAV."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from PIL import Image

from envs.episodes.drawing import Frame, Palette, draw_scene
from envs.episodes.scene import Scene
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.types import MurmurationError
from envs.workloads import Workload


@runtime_checkable
class Annotates(Protocol):
    """A scheduler that tells in pictures what it decided."""

    def annotate(self, scene: Scene) -> Scene:
        """Return a scene with links between nodes, wants and sentences; always with room for as many sentences."""


def film_episode(
    scheduler: Scheduler, workload: Workload, setup: Setup, seed: int, num_frames: int, title: str = ""
) -> list[Frame]:
    """Play a workload and return `num_frames` pictures, evenly spaced in simulated time, and one of the end.

    The episode is played twice: once to learn how long it takes. Pictures show the cluster after the last decision, and
    what a scheduler tells of it that `Annotates`; all have the title.

    Raises:
        MurmurationError: there would be no picture, and all errors of `run_episode`.
    """
    if num_frames < 1:
        raise MurmurationError(f"frames is {num_frames}; it must be at least 1")
    played = run_episode(scheduler, Simulator(workload, setup, seed))
    simulator, palette, end = Simulator(workload, setup, seed), Palette(), played.end_time
    ideal = np.full(len(workload), np.nan)
    ideal[: len(played.records)] = played.records["ideal_duration"]

    def look() -> Scene:
        scene = Scene.of(simulator.state, simulator.cluster, ideal=ideal)
        scene = replace(scene, title=title)
        return scheduler.annotate(scene) if isinstance(scheduler, Annotates) else scene

    scheduler.reset(simulator.cluster, simulator.rng)
    scene = look()
    frames: list[Frame] = []
    times = np.linspace(0.0, end, num_frames, endpoint=False)
    for view in simulator.rounds():
        due = times[len(frames) : np.searchsorted(times, view.time, side="left")]
        frames += [draw_scene(scene.at(float(time)), palette) for time in due]
        simulator.apply(scheduler.schedule(view))
        scene = look()
    frames += [draw_scene(scene.at(float(time)), palette) for time in times[len(frames) :]]
    return [*frames, draw_scene(look(), palette)]


def write_film(frames: Sequence[Frame], path: Path, fps: int) -> None:
    """Write pictures as an animated GIF or an MP4, by the ending of the path.

    Raises:
        MurmurationError: there is no picture, the ending is another one, or PyAV is missing for an MP4.
    """
    writers: dict[str, Callable[[Sequence[Frame], Path, int], None]] = {".gif": write_gif, ".mp4": write_mp4}
    if path.suffix not in writers or not frames or fps < 1:
        raise MurmurationError(
            f"film {path}: {len(frames)} pictures, {fps} per second; it needs at least one of each, and a name that "
            "ends with .gif or .mp4"
        )
    writers[path.suffix](frames, path, fps)


def write_gif(frames: Sequence[Frame], path: Path, fps: int) -> None:
    """Write an endless GIF with one palette for all pictures."""
    palette = Image.fromarray(np.concatenate([frames[0], frames[len(frames) // 2]])).quantize(128)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0, optimize=False)


def write_mp4(frames: Sequence[Frame], path: Path, fps: int) -> None:
    """Write an MP4 (H.264), which browsers play."""
    try:
        import av
    except ImportError as error:
        raise MurmurationError(
            f"film {path}: MP4 needs PyAV; install it with pip install 'murmuration[render]', or choose a .gif"
        ) from error
    height, width = (size - size % 2 for size in frames[0].shape[:2])  # the codec needs even sizes
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames:
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame[:height, :width], format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
