"""Film one episode of a scheduler or of a trained policy, as GIF or MP4.

python scripts/film.py task=shared-16 scheduler=starling
python scripts/film.py checkpoint=runs/train/<date_time> film=policy.mp4 frames=300 fps=20
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_film
from murmuration.config.descriptions import FilmRun
from murmuration.runs.films import film_run


@command("film", describe_film, schedulers="starling")
def main(run: FilmRun, folder: Path) -> None:
    """Play and film one episode; print the name of the film."""
    film_run(run, folder)


if __name__ == "__main__":
    main()
