"""Pictures of an episode: nodes as rows of GPU cells, cores and memory as bars, the queue, the clock, wants and edges.

Colours are those of Okabe and Ito, which every form of colour vision distinguishes, and tints of them. Cells that are
large enough show the job's number, because there are more jobs than colours.
"""

import math
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from envs.episodes.scene import DOWN, FREE, Scene
from envs.types import Seconds

WIDTH, HEADER, MARGIN = 960, 64, 16
NODES_PER_COLUMN = 32
QUEUE_WIDTH = 200
BESIDE, GRAPH_WIDTH = 215, 80  # bars and bids or wants; the coordination graph
BARS = 70  # width of the bars of cores and memory, with a gap
LARGEST_CELL = 34
SENTENCE = 18  # height of a line below the nodes
INK, SOFT, LINE, EMPTY = (34, 34, 34), (96, 96, 96), (205, 205, 205), (238, 238, 238)
CORES, MEMORY, EDGE = (0, 114, 178), (230, 159, 0), (150, 90, 160)
BASE = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (120, 120, 120))
TINTS = (0.0, 0.35, 0.6)  # towards white
Colour = tuple[int, int, int]
Frame = npt.NDArray[np.uint8]


def draw_scene(scene: Scene, bars: bool | None = None) -> Frame:
    """Draw a scene: uint8[height, 960, 3]. All scenes of one cluster have the same size.

    Args:
        scene: what is drawn.
        bars: whether there is room for cores, memory and bids beside the nodes; by default where nodes are not too
            many.
    """
    layout = Layout(scene)
    picture = Image.new("RGB", (WIDTH, layout.height), "white")
    draw = ImageDraw.Draw(picture)
    draw_header(draw, scene)
    for n in range(len(scene.owners)):
        draw_node(draw, scene, layout, n, layout.roomy if bars is None else bars)
    draw_edges(draw, scene, layout)
    draw_queue(draw, scene, layout)
    draw_sentences(draw, scene, layout)
    return np.asarray(picture, np.uint8).copy()


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
        self.beside = BESIDE + GRAPH_WIDTH + 10 if self.roomy else 0
        across = (self.column_width - self.label - self.beside - 8) / self.most_gpus
        self.cell = max(min(across, LARGEST_CELL), 1.0)
        self.row_height = min(LARGEST_CELL if self.roomy else 18, max(self.cell, 12.0))
        self.foot = int(HEADER + max(self.rows * self.row_height, 260) + MARGIN)  # of nodes and queue
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
    """Write the clock and the figures of the episode."""
    draw.text((MARGIN, 8), clock(scene.time), INK, font(24))
    jct = "-" if math.isnan(scene.mean_jct) else clock(scene.mean_jct)
    parts = [
        f"running {scene.num_running}",
        f"waiting {len(scene.waiting)}",
        f"done {scene.num_done}",
        f"free GPUs {scene.num_free}",
        f"mean JCT of done jobs {jct}",
    ]
    draw.text((MARGIN, 40), "     ".join(parts), SOFT, font(13))


def draw_node(draw: ImageDraw.ImageDraw, scene: Scene, layout: Layout, n: int, bars: bool) -> None:
    """Draw the label, the GPUs, and where there is room the bars and the bid of a node."""
    left, top = layout.corner(n)
    gap = 1 if layout.cell > 3 else 0
    bottom = top + layout.row_height - 2
    if layout.label:
        draw.text((left, top + layout.row_height / 2), f"{n} {scene.types[n]}", INK, font(12), anchor="lm")
    for g, job in enumerate(scene.owners[n]):
        x = layout.cells(n) + g * layout.cell
        box = (round(x), top, max(round(x + layout.cell) - 1 - gap, round(x)), bottom)
        draw.rectangle(box, fill=job_colour(int(job)) if job >= 0 else EMPTY)
        if job == DOWN:
            draw.line((box[0], top, box[2], bottom), SOFT, 1)
        if job >= 0 and layout.cell >= 22 and layout.row_height >= 14:
            middle = ((box[0] + box[2]) / 2, (top + bottom) / 2)
            draw.text(middle, str(job), ink_on(job_colour(int(job))), font(11), anchor="mm")
    if not bars:
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


def draw_queue(draw: ImageDraw.ImageDraw, scene: Scene, layout: Layout) -> None:
    """List the waiting jobs, as many as there is room for, and explain the bars."""
    left, top = layout.queue + 12, HEADER
    draw.line((layout.queue, HEADER - 4, layout.queue, layout.foot - MARGIN), LINE, 1)
    divided = scene.cores is not None and layout.roomy
    legend: list[tuple[Colour | str, str]] = [(CORES, "cores in use"), (MEMORY, "memory in use")] if divided else []
    if len(scene.edges) and layout.roomy:
        legend.append((EDGE, "share a job; thicker: more" if len(scene.weights) else "coordination graph"))
    if scene.wants and layout.roomy:
        legend.append(("white", "beside a node: its likeliest"))
        legend.append(("white", "option, and its share of all"))
    if scene.bids and layout.roomy:
        legend.append(("white", "+1.0 on job 7: strongest bid"))
    room = int((layout.foot - MARGIN - top - 18 - 18 * len(legend)) // 17) - 1
    draw.text((left, top), f"jobs waiting: {len(scene.waiting)}", INK, font(13))
    shown = scene.waiting[: room if len(scene.waiting) <= room else room - 1]
    for i, waiting in enumerate(shown):
        y = top + 20 + 17 * i
        draw.rectangle((left, y + 2, left + 10, y + 12), fill=job_colour(waiting.job))
        text = f"{waiting.job}: {waiting.num_gpus} GPU{'s' * (waiting.num_gpus > 1)}, {clock(waiting.age)}"
        draw.text((left + 16, y), text, INK, font(12))
    if len(shown) < len(scene.waiting):
        draw.text((left, top + 20 + 17 * len(shown)), f"and {len(scene.waiting) - len(shown)} more", SOFT, font(12))
    for i, (colour, name) in enumerate(legend):
        y = layout.foot - MARGIN - 18 * (len(legend) - i)
        draw.rectangle((left, y + 3, left + 10, y + 13), fill=colour)
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


def job_colour(job: int) -> Colour:
    """Return the colour of a job; consecutive jobs differ."""
    tint = TINTS[job // len(BASE) % len(TINTS)]
    red, green, blue = (round(part + (255 - part) * tint) for part in BASE[job % len(BASE)])
    return red, green, blue


def ink_on(colour: Colour) -> Colour:
    """Return black or white, whichever is easier to read on a colour."""
    red, green, blue = colour
    return (0, 0, 0) if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 115 else (255, 255, 255)


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return DejaVu Sans in a size; matplotlib ships it."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
