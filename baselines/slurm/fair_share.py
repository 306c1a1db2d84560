"""Fair share of users, by Fair Tree (https://slurm.schedmd.com/fair_tree.html) or by the classic formula."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from baselines.slurm.settings import ROOT, Association, SlurmSettings
from envs.types import GpuSeconds, Seconds


@dataclass(slots=True)
class Member:
    """An account, or a user of one, in the tree."""

    shares: float
    is_user: bool
    usage: GpuSeconds = 0.0  # decayed
    factor: float = 0.0
    children: list["Member"] = field(default_factory=list)

    def level_share(self, siblings: Sequence["Member"]) -> float:
        """Return its share of the siblings' shares over that of their usage; infinite without usage."""
        shares, usage = sum(each.shares for each in siblings), sum(each.usage for each in siblings)
        if self.shares == 0:
            return 0.0
        return math.inf if self.usage == 0 else (self.shares / shares) / (self.usage / usage)


class FairShare:
    """The tree of associations and what they have used. Jobs of unknown accounts and users get one share each.

    Usage is in GPU-seconds: weights of other resources (TRESBillingWeights) and QoS' UsageFactor are not modelled.

    Args:
        settings: with the associations.
    """

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings
        self._root = Member(1.0, False)
        self._accounts: dict[str, Member] = {ROOT: self._root}
        self._users: dict[tuple[str, str], Member] = {}
        self.members: list[Member] = []  # by number of `find`
        self._numbers: dict[tuple[str, str], int] = {}
        self._time, self._resets = 0.0, 0
        parents = {each.account: each for each in settings.associations if not each.user}
        for account in parents:
            self._add_account(account, parents)
        for each in settings.associations:
            if each.user:
                self._add_user(each.account, each.user, each.shares)

    def _add_account(self, account: str, known: Mapping[str, Association]) -> Member:
        if account not in self._accounts:
            stated = known.get(account, Association(account))
            member = self._accounts[account] = Member(stated.shares, False)  # before its parent, which ends circles
            self._add_account(stated.parent, known).children.append(member)
        return self._accounts[account]

    def _add_user(self, account: str, user: str, shares: float = 1.0) -> Member:
        if (account, user) not in self._users:
            member = self._users[account, user] = Member(shares, True)
            self._add_account(account, {}).children.append(member)
        return self._users[account, user]

    def find(self, account: str, user: str) -> int:
        """Return the number of a user of an account in `members`, by order of first call; add it if it is new."""
        key = account, user
        if key not in self._numbers:
            self._numbers[key] = len(self.members)
            self.members.append(self._add_user(*key))
        return self._numbers[key]

    def use(self, now: Seconds, usage: Sequence[tuple[int, GpuSeconds]]) -> None:
        """Decay what was used until the last call, then add what has been used since.

        Args:
            now: not before the last call's.
            usage: numbers of `find`, each with GPU-seconds.
        """
        half, reset = self._settings.half_life, self._settings.usage_reset
        kept = 0.5 ** ((now - self._time) / half) if half > 0 else 1.0
        if reset > 0 and now // reset > self._resets:
            kept, self._resets = 0.0, int(now // reset)
        self._time = now
        for member in self._users.values():
            member.usage *= kept
        for number, amount in usage:
            self.members[number].usage += amount
        self._sum(self._root)

    def _sum(self, member: Member) -> None:
        for child in member.children:
            self._sum(child)
        if not member.is_user:
            member.usage = sum(child.usage for child in member.children)

    def rank(self) -> list[float]:
        """Compute the fair-share factor of every user, from 0 to 1; return those of `members`."""
        if self._settings.fair_tree:
            self._left = self._rank = len(self._users)
            self._rank_children([self._root], False)
        else:
            self._classic(self._root, 1.0, 1.0)
        return [member.factor for member in self.members]

    def _rank_children(self, parents: Sequence[Member], tied: bool) -> None:
        """Rank the children of accounts that are level with each other, depth first.

        The children of tied accounts are sorted together. A user that is tied with the one before has its rank.

        Args:
            parents: the accounts.
            tied: whether they are tied with a user that has been ranked last.
        """
        found = [(child.level_share(each.children), child) for each in parents for child in each.children]
        found.sort(key=lambda pair: (-pair[0], not pair[1].is_user))
        place, before = 0, None
        while place < len(found):
            share, child = found[place]
            tied, before = tied or share == before, share
            if child.is_user:
                if not tied:
                    self._rank = self._left
                child.factor = self._rank / len(self._users)
                self._left -= 1
                place += 1
            else:
                level = [other for value, other in found[place:] if value == share]
                self._rank_children(level, tied)
                place += len(level)
            tied = False

    def _classic(self, parent: Member, shares: float, effective: float) -> None:
        """Set factors by 2^(-usage / shares / dampening), with the usage of accounts passed down to their members."""
        total, root = sum(child.shares for child in parent.children), self._root.usage
        for child in parent.children:
            own = shares * child.shares / total if total else 0.0
            used = child.usage / root if root else 0.0
            if parent is not self._root and total:
                used += (effective - used) * child.shares / total
            if child.is_user:
                child.factor = 2.0 ** (-used / own / self._settings.dampening) if own else 0.0
            else:
                self._classic(child, own, used)
