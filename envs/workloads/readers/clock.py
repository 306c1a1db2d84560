"""Times of day in trace files: with a time zone or without one, and across changes of the clock."""

import re
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from envs.types import BoolArray, Seconds, TraceError, did_you_mean
from envs.types.units import DAY

if TYPE_CHECKING:
    import pandas as pd

NO_ZONE_NOTE = (
    "times have no time zone and are used unchanged: where the clock changes, an hour is lost or counts twice; "
    "workload.reader.timezone names the zone"
)
_OFFSET = re.compile(r".*\d[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)", re.IGNORECASE)


def find_zone(timezone: str) -> ZoneInfo:
    """Return the time zone of an IANA name, such as Europe/Berlin.

    Raises:
        TraceError: there is no such zone.
    """
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError) as error:
        hint = did_you_mean(timezone[:60], available_timezones())
        raise TraceError(
            f"workload.reader.timezone is {timezone[:60]!r}; it must name a time zone, such as Europe/Berlin, "
            f"America/New_York or UTC{hint}"
        ) from error


def midnight_before(seconds: Seconds, timezone: str | None = None) -> Seconds:
    """Return the last midnight up to a time, both in seconds since 1970: of a time zone, or of UTC if None."""
    if timezone is None or not np.isfinite(seconds):
        return float(np.floor(seconds / DAY) * DAY)
    there = datetime.fromtimestamp(seconds, find_zone(timezone))
    return there.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def state_zone(texts: "pd.Series[str]", layout: str) -> BoolArray:
    """bool[num_rows]: whether a time of this `strptime` layout, or of layout "ISO8601", states its time zone."""
    if layout == "ISO8601":
        return texts.str.fullmatch(_OFFSET).to_numpy(dtype=np.bool_)
    return np.full(len(texts), "%z" in layout or "%Z" in layout or layout.endswith("Z"))


def localise(stamps: "pd.Series[pd.Timestamp]", timezone: str) -> "tuple[pd.Series[pd.Timestamp], BoolArray]":
    """Turn times of a zone's clock into times in UTC, both without a stated zone.

    Returns:
        The times, of which those that the clock skips are missing, and bool[num_rows], those that it shows twice: they
        count as its first pass.
    """
    zone = find_zone(timezone)
    passes = [
        stamps.dt.tz_localize(zone, ambiguous=np.full(len(stamps), first), nonexistent="NaT")
        .dt.tz_convert("UTC")
        .dt.tz_localize(None)
        for first in (True, False)
    ]
    return passes[0], (passes[0].notna() & (passes[0] != passes[1])).to_numpy()
