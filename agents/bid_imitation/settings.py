"""Settings of imitation through bids."""

from dataclasses import dataclass

from envs.types import MurmurationError, Seconds


@dataclass(frozen=True, slots=True)
class BidImitationSettings:
    """How a policy learns the bids on which its market decides as a teacher does.

    Attributes:
        passes: passes of data aggregation (DAgger, AISTATS'11). In the first one the bids found for the teacher are
            played, in later ones the policy's own in a share of the rounds.
        rounds: scheduling rounds of training episodes that are collected in each pass, over all tasks.
        epochs: over all rounds collected so far, after each pass.
        student_share: share of the rounds of later passes in which the policy's bids are played.
        corrections: how often the bids for one round are corrected until the market decides as the teacher does.
        lr: learning rate of Adam.
        huber: difference between bid and target up to which the loss is quadratic.
        num_envs: episodes that are played at once; also the rounds of a minibatch.
        num_games: validation workloads of each task on which agreement is measured.
        futures: sampled futures on which each choice of the teacher is judged against the market alone. What is not
            better there is not learnt, and the rest counts by what it gains. 0 learns all choices alike.
        horizon: simulated seconds for which a choice is played on in a future.
    """

    passes: int = 3
    rounds: int = 2000
    epochs: int = 4
    student_share: float = 0.5
    corrections: int = 8
    lr: float = 5e-3
    huber: float = 0.1
    num_envs: int = 16
    num_games: int = 8
    futures: int = 0
    horizon: Seconds = 2000.0

    def __post_init__(self) -> None:
        for name in ("passes", "rounds", "epochs", "corrections", "lr", "huber", "num_envs", "num_games", "horizon"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"imitation.{name} is {getattr(self, name)}; it must be positive")
        if self.futures < 0:
            raise MurmurationError(f"imitation.futures is {self.futures}; it must not be negative (0: no judgement)")
        if not 0 <= self.student_share <= 1:
            raise MurmurationError(f"imitation.student_share is {self.student_share}; it must be from 0 to 1")
