"""What `trnsim plan fleet` prints."""

from pathlib import Path

import pytest

from trnsim.cli.plan.fleet_text import text
from trnsim.system.fleet.comparison import compare
from trnsim.system.fleet.reading import read
from trnsim.system.fleet.report import plain

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "fleet.yaml"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("fleet") / "small.yaml"
    path.write_text(EXAMPLE.read_text().replace("days: 7", "days: 1"))
    scenario = read(path)
    return scenario, plain(scenario, compare(scenario, ("threshold",), draws=2), 0)


def test_figures_are_those_of_the_json(found):
    _, made = found
    printed = text(*found)
    one = made["policies"]["threshold"]
    assert f"{100 * one['utilisation']['p50']:.0f} (" in printed
    assert f"{made['chips']:,} chips in 2 buildings, 256 of them spare" in printed
    assert f"{one['energy_kwh_per_day'] / 1e3:.1f}" in printed
    assert "of perfect sharing" in printed
    assert "research: 256, 512, ... or 2304 chips, given; 6 min to change" in printed


def test_all_chips_of_an_hour_are_shown(found):
    scenario, _ = found
    row = next(line for line in text(*found).splitlines() if line.startswith("Mon 12:00"))
    shown = [int(cell.replace(",", "")) for cell in row.split()[2:]]
    assert sum(shown) == scenario.blocks * scenario.block_chips


def test_without_watts_there_is_no_energy(found):
    scenario, made = found
    policies = {"separate": made["policies"]["threshold"] | {"energy_kwh_per_day": None}}
    printed = text(scenario, made | {"policies": policies})
    assert "MWh" not in printed
    assert "MWh/day" in text(*found)


def test_a_plan_that_is_not_the_solvers_own_says_so(found):
    scenario, made = found
    made["policies"]["threshold"]["own_plan"] = False
    assert "The solver found nothing better than the threshold policy's plan." in text(
        scenario, made
    )
