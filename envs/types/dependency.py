"""Dependencies of jobs on other jobs, in the words of Slurm's --dependency."""

import re

from envs.types.errors import MurmurationError

OK, NOT_OK = 1, 2  # how a job ended: it processed all its work, or not
MET_BY = {"afterok": OK, "afternotok": NOT_OK, "afterany": OK | NOT_OK}  # which ends of the other job meet it
SINGLETON = "singleton"  # met once all earlier jobs of its user with its name have ended
_REMARK = re.compile(r"\([a-z]*\)")  # squeue writes afterok:7(unfulfilled)


def parse_dependency(text: str) -> list[tuple[str, str]]:
    """Return (word, job) for each job that a dependency names; ("singleton", "") for that one.

    Args:
        text: such as `afterok:3:4,singleton`; all parts must be met. Empty for none.

    Raises:
        MurmurationError: it has another form, or a word that the world does not have.
    """
    found = []
    for part in filter(None, _REMARK.sub("", text).split(",")):
        word, *jobs = part.split(":")
        if word == SINGLETON and not jobs:
            found.append((SINGLETON, ""))
        elif word in MET_BY and jobs and all(jobs) and not set("?+") & set(part):
            found += [(word, job) for job in jobs]
        else:
            raise MurmurationError(
                f"dependency {text[:80]!r}: {part[:40]!r} is not understood; it must be {', '.join(MET_BY)} with jobs, "
                f"such as afterok:3:4, or {SINGLETON}, with commas between them"
            )
    return found
