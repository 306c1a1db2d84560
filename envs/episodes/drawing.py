"""Pictures of an episode: nodes as rows of GPU cells, cores and memory as bars, the queue, the clock, wants and edges.

Colours are those of Okabe and Ito, which every form of colour vision distinguishes, and tints of them: jobs on adjacent
GPUs differ, and a job keeps its colour over the pictures of an episode (`Palette`). Cells that are large enough show
the job's number, because there are more jobs than colours.
"""

import math
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from envs.episodes.scene import DOWN, FREE, Scene
from envs.types import Seconds

WIDTH, HEADER, MARGIN = 1120, 64, 16
NODES_PER_COLUMN = 32
QUEUE_WIDTH = 270
BESIDE, GRAPH_WIDTH = 215, 80  # bars and bids or wants; the coordination graph
BARS = 70  # width of the bars of cores and memory, with a gap
WIDEST_CELL, HIGHEST_ROW, USUAL_ROW = 170, 65, 34
LEAST_HEIGHT = 260  # of the nodes and of the list of jobs
SENTENCE = 18  # height of a line below the nodes
INK, SOFT, LINE, EMPTY = (34, 34, 34), (96, 96, 96), (205, 205, 205), (238, 238, 238)
CORES, MEMORY, EDGE = (0, 114, 178), (230, 159, 0), (150, 90, 160)
BASE = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (120, 120, 120))
TINTS = (0.0, 0.35, 0.6)  # towards white
Colour = tuple[int, int, int]
COLOURS: tuple[Colour, ...] = tuple(
    (round(r + (255 - r) * tint), round(g + (255 - g) * tint), round(b + (255 - b) * tint))
    for tint in TINTS
    for r, g, b in BASE
)
Frame = npt.NDArray[np.uint8]


def draw_scene(scene: Scene, palette: "Palette | None" = None) -> Frame:
    """Draw a scene: uint8[height, 1120, 3]. All scenes of one cluster have the same size.

    Args:
        scene: what is drawn.
        palette: of the episode, which keeps the colours of its jobs from picture to picture; None for this one alone.
    """
    layout, palette = Layout(scene), palette or Palette()
    palette.update(scene, layout.rows)
    picture = Image.new("RGB", (WIDTH, layout.height), "white")
    draw = ImageDraw.Draw(picture)
    draw_header(draw, scene)
    for n in range(len(scene.owners)):
        draw_node(draw, scene, layout, n, palette)
    draw_edges(draw, scene, layout)
    draw_job_list(draw, scene, layout, palette)
    draw_sentences(draw, scene, layout)
    return np.asarray(picture, np.uint8).copy()


class Palette:
    """Colours of jobs over the pictures of one episode; an earlier time than before begins another one.

    A job takes a colour that no job beside it has, that as few others as possible have, and if it can one of another
    hue than those beside it. It keeps its colour, also while it waits, unless it comes beside a job of the same one.
    """

    def __init__(self) -> None:
        self._number: dict[int, int] = {}  # place in COLOURS
        self._time = 0.0

    def colour(self, job: int) -> Colour | None:
        """Return the colour of a job; None if it has never run."""
        return COLOURS[self._number[job]] if job in self._number else None

    def update(self, scene: Scene, rows: int) -> None:
        """Choose colours for a scene, whose nodes are in columns of `rows`."""
        if scene.time < self._time:
            self._number.clear()
        self._time = scene.time
        beside = adjacent_jobs(scene, rows)
        for job, others in beside.items():
            known = {self._number[other] for other in others if other in self._number}
            if job in self._number and self._number[job] not in known:
                continue
            running = Counter(self._number[other] for other in beside if other in self._number and other != job)
            hues = {number % len(BASE) for number in known}
            self._number[job] = min(
                range(len(COLOURS)), key=lambda n: (n in known, running[n], n % len(BASE) in hues, n)
            )


def adjacent_jobs(scene: Scene, rows: int) -> dict[int, set[int]]:
    """Return for each job on GPUs, in the order of nodes, the jobs on adjacent ones; columns have `rows` nodes."""
    found: dict[int, set[int]] = {int(job): set() for row in scene.owners for job in row if job >= 0}
    pairs = [pair for row in scene.owners for pair in pairwise(row)]
    for n in range(1, len(scene.owners)):
        if n % rows:
            pairs += zip(scene.owners[n - 1], scene.owners[n], strict=False)
    for one, other in pairs:
        if one >= 0 and other >= 0 and one != other:
            found[int(one)].add(int(other))
            found[int(other)].add(int(one))
    return found


class Layout:
    """Places of nodes: columns of at most `NODES_PER_COLUMN` rows."""

    def __init__(self, scene: Scene) -> None:
        nodes, self.most_gpus = len(scene.owners), max(len(row) for row in scene.owners)
        self.columns = -(-nodes // NODES_PER_COLUMN)
        self.rows = -(-nodes // self.columns)
        self.queue = WIDTH - QUEUE_WIDTH
        self.column_width = (self.queue - MARGIN) / self.columns
        self.roomy = self.columns == 1
        self.label = 78 if self.columns <= 2 else 0
        self.beside = (BESIDE + GRAPH_WIDTH if scene.tells else BARS) + 10 if self.roomy else 0
        across = (self.column_width - self.label - self.beside - 8) / self.most_gpus
        self.cell = max(min(across, WIDEST_CELL), 1.0)
        most = min(max(LEAST_HEIGHT / self.rows, USUAL_ROW), HIGHEST_ROW) if self.roomy else 18.0
        self.row_height = min(most, max(self.cell, 12.0))
        self.foot = int(HEADER + max(self.rows * self.row_height, LEAST_HEIGHT) + MARGIN)  # of nodes and jobs
        self.height = self.foot + SENTENCE * len(scene.said)

    def corner(self, n: int) -> tuple[float, float]:
        """Return the left upper corner of a node's row."""
        column, row = divmod(n, self.rows)
        return MARGIN + column * self.column_width, HEADER + row * self.row_height

    def cells(self, n: int) -> float:
        """Return the left edge of a node's GPUs."""
        return self.corner(n)[0] + self.label

    def bars(self, n: int) -> float:
        """Return the left edge of a node's bars."""
        return self.cells(n) + self.most_gpus * self.cell + 10

    @property
    def edges(self) -> float:
        """The left edge of the coordination graph."""
        return self.bars(0) + BESIDE - 10


def draw_header(draw: ImageDraw.ImageDraw, scene: Scene) -> None:
    """Write the clock, the title and the figures of the episode."""
    draw.text((MARGIN, 8), clock(scene.time), INK, font(24))
    draw.text((WIDTH - MARGIN, 14), shorten_to(scene.title, WIDTH - 260, font(14)), INK, font(14), anchor="ra")
    jct = "-" if math.isnan(scene.mean_jct) else clock(scene.mean_jct)
    parts = [
        f"running {len(scene.running)}",
        f"waiting {len(scene.waiting)}",
        f"done {scene.num_done}",
        f"free GPUs {scene.num_free}",
        f"mean JCT of done jobs {jct}",
    ]
    draw.text((MARGIN, 40), "     ".join(parts), SOFT, font(13))


def draw_node(draw: ImageDraw.ImageDraw, scene: Scene, layout: Layout, n: int, palette: Palette) -> None:
    """Draw the label, the GPUs, and where there is room the bars and the bid of a node."""
    left, top = layout.corner(n)
    gap = 1 if layout.cell > 3 else 0
    bottom = top + layout.row_height - 2
    if layout.label:
        draw.text((left, top + layout.row_height / 2), f"{n} {scene.types[n]}", INK, font(12), anchor="lm")
    for g, job in enumerate(scene.owners[n]):
        x = layout.cells(n) + g * layout.cell
        box = (round(x), top, max(round(x + layout.cell) - 1 - gap, round(x)), bottom)
        fill = palette.colour(int(job)) or EMPTY
        draw.rectangle(box, fill=fill)
        if job == DOWN:
            draw.line((box[0], top, box[2], bottom), SOFT, 1)
        if job >= 0 and layout.cell >= 22 and layout.row_height >= 14:
            middle = ((box[0] + box[2]) / 2, (top + bottom) / 2)
            draw.text(middle, str(job), ink_on(fill), font(11), anchor="mm")
    if not layout.roomy:
        return
    x, height = layout.bars(n), (top + bottom) / 2
    for values, colour, y in ((scene.cores, CORES, top + 1), (scene.memory, MEMORY, height + 1)):
        if values is not None:
            high = max((bottom - top) / 2 - 2, 1)
            draw.rectangle((x, y, x + 60, y + high), outline=LINE)
            draw.rectangle((x, y, x + 60 * min(float(values[n]), 1.0), y + high), fill=colour)
    if scene.bids:
        job, amount = scene.bids[n]
        text = f"{amount:+.1f} on job {job}" if job != FREE else "no bid"
        draw.text((x + BARS, height), text, INK if job != FREE else SOFT, font(11), anchor="lm")
    if scene.wants:
        draw.text((x + BARS, height), scene.wants[n], INK, font(10), anchor="lm")


def draw_edges(draw: ImageDraw.ImageDraw, scene: Scene, layout: Layout) -> None:
    """Draw the links of the coordination graph as arcs between the rows of the nodes."""
    if not layout.roomy:
        return
    left = layout.edges
    weights = scene.weights if len(scene.weights) else np.zeros(len(scene.edges))
    links = {tuple(sorted(edge)): weight for edge, weight in zip(scene.edges.tolist(), weights.tolist(), strict=True)}
    heaviest = max(links.values(), default=0.0)
    for (one, other), weight in sorted(links.items()):
        upper, lower = (layout.corner(n)[1] + layout.row_height / 2 for n in (one, other))
        width = 6 + (GRAPH_WIDTH - 16) * (other - one) / max(layout.rows - 1, 1)
        thick = 1 + round(3 * weight / heaviest) if heaviest > 0 else 1
        draw.arc((left - width, upper, left + width, lower), 270, 90, EDGE, thick)


def draw_job_list(draw: ImageDraw.ImageDraw, scene: Scene, layout: Layout, palette: Palette) -> None:
    """List the jobs that run and that wait, as many as there is room for, and explain the bars."""
    left, top = layout.queue + 12, HEADER
    draw.line((layout.queue, HEADER - 4, layout.queue, layout.foot - MARGIN), LINE, 1)
    divided = scene.cores is not None and layout.roomy
    legend: list[tuple[Colour | str, str]] = [(CORES, "cores in use"), (MEMORY, "memory in use")] if divided else []
    if len(scene.edges) and layout.roomy:
        legend.append((EDGE, "share a job; thicker: more" if len(scene.weights) else "coordination graph"))
    if scene.wants and layout.roomy:
        legend.append(("white", "beside a node: its likeliest option, and"))
        legend.append(("white", "its share of all"))
    if scene.bids and layout.roomy:
        legend.append(("white", "+1.0 on job 7: strongest bid"))
    room = int((layout.foot - MARGIN - top - 18 * len(legend)) // 17) - 1
    waiting = min(len(scene.waiting), max(room // 2, room - len(scene.running)))
    for jobs, verb, lines in ((scene.running, "runs on", room - waiting), (scene.waiting, "waits", waiting)):
        shown = jobs[: lines if len(jobs) <= lines else max(lines - 1, 0)]
        for job in shown:
            colour = palette.colour(job.job)
            draw.rectangle((left, top + 2, left + 10, top + 12), fill=colour, outline=colour or SOFT)
            gpus = f"{job.num_gpus} GPU{'s' * (job.num_gpus > 1)}"
            what = f"{verb} {gpus}" if verb == "runs on" else f"{verb} {brief(job.age)}, {gpus}"
            rest = f", {brief(max(job.left, 0.0))} left" if math.isfinite(job.left) else ""
            draw.text((left + 16, top), f"{job.job} {what}{rest}", INK, font(12))
            top += 17
        if len(shown) < len(jobs):
            draw.text((left, top), f"and {len(jobs) - len(shown)} more that {verb.split()[0][:-1]}", SOFT, font(12))
            top += 17
    for i, (mark, name) in enumerate(legend):
        y = layout.foot - MARGIN - 18 * (len(legend) - i)
        draw.rectangle((left, y + 3, left + 10, y + 13), fill=mark)
        draw.text((left + 16, y), name, SOFT, font(12))


def draw_sentences(draw: ImageDraw.ImageDraw, scene: Scene, layout: Layout) -> None:
    """Write the sentences about what was decided."""
    for i, text in enumerate(scene.said):
        draw.text((MARGIN, layout.foot - 4 + SENTENCE * i), text, INK, font(12))


def clock(seconds: Seconds) -> str:
    """Return a time as days, hours, minutes and seconds, the two largest that it has."""
    whole = round(seconds)
    days, hours, minutes, rest = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((i for i, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])


def brief(seconds: Seconds) -> str:
    """Return a time in one unit."""
    for size, unit in ((86400.0, "d"), (3600.0, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def shorten_to(text: str, width: float, letters: ImageFont.FreeTypeFont) -> str:
    """Return a text that is at most so many pixels wide, cut at its end."""
    while letters.getlength(text) > width:
        text = text[:-2].rstrip() + "…"
    return text


def ink_on(colour: Colour) -> Colour:
    """Return black or white, whichever is easier to read on a colour."""
    red, green, blue = colour
    return (0, 0, 0) if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 115 else (255, 255, 255)


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return DejaVu Sans in a size; matplotlib ships it."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
