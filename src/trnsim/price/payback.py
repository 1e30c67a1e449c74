"""The assumed cost of a migration, and the spend from which it pays back in time."""

from __future__ import annotations

from typing import Final

from trnsim.facts import assumed

ENGINEER_WEEKS: Final = assumed(12, "a median guess for one workload; replace it by your own")
USD_PER_ENGINEER_WEEK: Final = assumed(5000, "a round figure; replace it by your own")
PAYBACK_LIMIT_MONTHS: Final = assumed(12, "a year, the usual horizon of such decisions")
HOURS_PER_MONTH: Final = 730
MIGRATION_USD: Final = ENGINEER_WEEKS * USD_PER_ENGINEER_WEEK


def threshold_usd_per_month(
    saving: float,
    migration_usd: float = MIGRATION_USD,
    limit_months: float = PAYBACK_LIMIT_MONTHS,
) -> float:
    """``migration / (limit saving)``: monthly spend from which a migration pays back in time.

    Infinite where nothing is saved.
    """
    if not saving > 0:
        return float("inf")
    return migration_usd / (limit_months * saving)
