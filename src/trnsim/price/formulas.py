"""Cost per token, and relative cost of two prices: the formulas, without data."""

from __future__ import annotations

from typing import Final

from trnsim.errors import BadInput
from trnsim.price.comparison import caveats
from trnsim.price.quotes import Quote

SECONDS_PER_HOUR: Final = 3600
TOKENS_PER_MILLION: Final = 1_000_000


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: float) -> float:
    """``usd_per_hour / (tokens_per_s * 3600) * 1e6``.

    Raises:
        BadInput: tokens per second are not positive.
    """
    if not tokens_per_s > 0:
        raise BadInput(f"tokens per second must be positive, not {tokens_per_s}")
    return usd_per_hour / (tokens_per_s * SECONDS_PER_HOUR) * TOKENS_PER_MILLION


def relative_cost(
    ours: Quote, theirs: Quote, work_ratio: float = 1.0, *, is_mixed_on_purpose: bool = False
) -> float | None:
    """``(our USD/h / their USD/h) / work_ratio``; None if either has no public price.

    Args:
        ours: our price.
        theirs: the price that it is compared with.
        work_ratio: our work per hour over theirs.
        is_mixed_on_purpose: allow different purchase kinds. The caller prints the caveats of both
            prices (`trnsim.price.caveats`), which then name the kinds.

    Raises:
        BadInput: the kinds differ, and `is_mixed_on_purpose` is False; or `work_ratio` is
            not positive.
    """
    if not work_ratio > 0:
        raise BadInput(f"the ratio of work must be positive, not {work_ratio}")
    caveats((ours, theirs), is_mixed_on_purpose=is_mixed_on_purpose)
    if ours.usd_per_hour is None or theirs.usd_per_hour is None:
        return None
    return ours.usd_per_hour / theirs.usd_per_hour / work_ratio
