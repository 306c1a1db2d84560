"""Plot of job completion times under every scheduler."""

import numpy as np
from matplotlib.figure import Figure

from envs.evaluation.comparison import Comparison
from envs.metrics import job_completion_times
from envs.pictures.texts import plot_text

# Okabe and Ito's palette, distinguishable with every form of colour blindness. With line styles: 28 distinct lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
MARKS = {"1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600, "1 h": 3600, "10 h": 36e3, "1 d": 86400, "10 d": 864e3}
LEAST = 1e-3  # seconds; shorter times are drawn here, as a logarithmic axis has no zero


def jct_cdf(comparison: Comparison) -> Figure:
    """Plot the distribution of job completion times for every scheduler, over the jobs that all of them finished.

    The legend begins with the scheduler of the least mean JCT.
    """
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(comparison.order):
        pairs = zip(comparison.episodes[name], comparison.compared, strict=False)
        jct = np.concatenate([job_completion_times(episode.rows(jobs)) for episode, jobs in pairs])
        if not len(jct):
            continue
        line = axes.ecdf(np.maximum(jct, LEAST), label=plot_text(name), linewidth=1.6)
        line.set(color=COLOURS[i % len(COLOURS)], linestyle=STYLES[i // len(COLOURS) % len(STYLES)])
    axes.set_xscale("log")
    axes.set_xlabel("job completion time")
    low, high = axes.get_xlim()
    axes.set_xticks(list(MARKS.values()), list(MARKS))
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)
    axes.set_ylabel("share of jobs")
    axes.set_title(plot_text(f"{sum(map(len, comparison.compared))} jobs that every scheduler finished"), fontsize=10)
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_lines():
        axes.legend(frameon=False, fontsize=9, loc="lower right", ncols=1 + len(comparison.runs) // 10)
    return figure
