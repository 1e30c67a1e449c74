"""What fields are read with."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from trnsim.system.fleet.setting import Setting


def test_a_day_has_288_steps(scenario_of):
    fleet = scenario_of().fleet
    start = datetime(2026, 3, 2, tzinfo=UTC)
    zone = ZoneInfo("UTC")
    assert Setting(fleet, "a", Path(), zone, start, 2, print).steps == 2 * 288
