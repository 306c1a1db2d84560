"""Evaluate a program, a file with a scheduler class, in a process that can only decide; print one JSON object.

murmuration evaluate-program program.py --task full-64 --stage 1
murmuration evaluate-program best.py --task full-64 --split test --episodes 20
"""

import argparse
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from murmuration.config.errors import ChoiceError, one_line_errors
from murmuration.programs.evaluator import STAGES, ProgramEvaluator, answer_requests, read_program


def main() -> None:
    """Evaluate one program, or those that standard input names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program", help='a file of Python; - answers lines such as {"program": "p.py", "stage": 1}')
    parser.add_argument("options", nargs="*", help="of the task, such as workload.load=0.8")
    parser.add_argument("--task", default="full-64", help="name of a task; default: full-64")
    parser.add_argument("--stage", type=int, default=3, choices=STAGES, help="1 to 3: more workloads; default: 3")
    parser.add_argument("--split", default="validation", help="validation, or test for the result of a search")
    parser.add_argument("--episodes", type=int, help="workloads of the split, the first ones, in place of a stage's")
    parser.add_argument("--seed", type=int, help="draw other workloads of the split, by this number")
    with one_line_errors():
        given = parser.parse_intermixed_args()
        if (given.episodes or 1) < 1 or (given.seed or 0) < 0:
            raise ChoiceError("evaluate-program: --episodes must be at least 1, and --seed at least 0")
        with redirect_stdout(sys.stderr):
            text = "" if given.program == "-" else read_program(Path(given.program))
            evaluator = ProgramEvaluator([given.task, *given.options], given.split, given.seed)
        try:
            if given.program == "-":
                return answer_requests(evaluator)
            with redirect_stdout(sys.stderr):
                found = evaluator.evaluate(text, given.stage, given.episodes)
            print(json.dumps(found, indent=1))
        finally:
            evaluator.close()


if __name__ == "__main__":
    main()
