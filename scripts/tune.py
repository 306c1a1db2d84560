"""Search for better parameters of a scheduler on training workloads, and check them on validation workloads.

python scripts/tune.py
python scripts/tune.py tuning=starling_unknown generations=10
python scripts/tune.py tuning=starling_tasks tasks=[shared-64,adaptive-40]
"""

import json
from pathlib import Path

from launch import command

# isort: split
from envs.evaluation.files import write_whole
from envs.evaluation.tuning import improvement, search
from murmuration.config.describe import describe_tuning
from murmuration.config.descriptions import TuningRun
from murmuration.runs.tuning import build_factory, build_parameters, build_score, print_verdict, show_search


@command("tune", describe_tuning)
def main(run: TuningRun, folder: Path) -> None:
    """Search, validate, write tuned.json."""
    make, parameters = build_factory(run), build_parameters(run)
    training = build_score(run, "train")
    with show_search(run, len(parameters)) as (print_improvement, advance):
        found = search(
            make,
            parameters,
            training,
            generations=run.generations,
            population=run.population,
            seed=run.seed,
            listener=print_improvement,
            progress=advance,
        )
    validation = build_score(run, "validation")
    before, after = (validation.by_problem_set(make(values)) for values in ({}, found.values))
    gain = improvement(before, after)
    print_verdict(run, found, before, after)
    content = {
        "values": dict(found.values),
        "evaluations": found.evaluations,
        "training": {"before": found.default_score, "after": found.score},
        "validation": {"before": gain.before, "after": gain.after, "change": gain.change, "error": gain.error},
        "worth_taking_over": gain.is_clear,
    }
    write_whole(folder / "tuned.json", json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
