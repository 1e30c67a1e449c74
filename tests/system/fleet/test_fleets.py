"""Fleets of scenarios."""

import pytest

from trnsim.errors import BadInput
from trnsim.price import quote

EQUAL = "buildings: 2\n  ultraservers: 10"


def test_equal_buildings_are_numbered(scenario_of):
    fleet = scenario_of().fleet
    assert fleet.ultraservers == {"building 1": 10, "building 2": 10}
    assert fleet.chips == 1280
    assert fleet.instance_chips == 16


def test_buildings_have_names(scenario_of):
    found = scenario_of({EQUAL: "buildings: {north: 30, south: 11}", "spares: 0": "spares: 10"})
    assert found.building_blocks == {"north": 20, "south": 1}


def test_without_a_number_spares_are_as_many_as_are_under_repair(scenario_of):
    found = scenario_of(
        {
            "ultraservers: 10": "ultraservers: 12",
            "  spares: 0\n": "",
            "chip_mtbf_hours: 1e12": "chip_mtbf_hours: 18432",
        }
    )
    assert found.fleet.spares["building 1"] == 2  # a mean of 12 x 64 x 24 h / 18,432 h = 1


def test_without_a_price_the_kinds_public_one_is_taken(scenario_of):
    fleet = scenario_of({"usd_per_chip_hour: 1": "price: capacity_block"}).fleet
    found = quote("trn2.48xlarge", "capacity_block")
    assert fleet.usd_per_chip_hour == pytest.approx(found.usd_per_hour / 16)
    assert fleet.price == str(found)


def test_energy_costs_where_watts_are_known(scenario_of):
    assert scenario_of().fleet.energy_usd_per_chip_hour("training") == 0
    watts = "usd_per_chip_hour: 1\n  usd_per_kwh: 0.1\n"
    watts += "  watts_per_chip: {serving: 400, training: 500, idle: 100}"
    fleet = scenario_of({"usd_per_chip_hour: 1": watts}).fleet
    assert fleet.energy_usd_per_chip_hour("training") == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("instance: trn2.48xlarge", "instance: trn9", "a.yaml:6: fleet.instance is 'trn9'; legal"),
        (
            "ultraserver_chips: 64",
            "ultraserver_chips: 60",
            "fleet.ultraserver_chips is '60'; legal: a multiple of 16, of one trn2.48xlarge",
        ),
        (
            "buildings: 2",
            "buildings: 0",
            "fleet.buildings is '0'; legal: a whole number from 1 to 10,000",
        ),
        (
            "ultraservers: 10",
            "ultraservers: -1",
            "fleet.ultraservers is '-1'; legal: a whole number from 1",
        ),
        ("ultraservers: 10", "ultraservers: 1e30", "fleet.ultraservers is '1e30': too large"),
        ("ultraservers: 10", "ultraservers: 100000", "legal: at most 10,000,000 chips in all"),
        ("  ultraservers: 10\n", "", "fleet.ultraservers is missing"),
        ("buildings: 2", "buildings: {north: 3}", "buildings says already how many each has"),
        ("spares: 0", "spares: 10", "fleet.spares is '10'; legal: from 0 to 9"),
        ("chip_mtbf_hours: 1e12", "chip_mtbf_hours: 0", "fleet.chip_mtbf_hours is '0'; legal"),
        ("chip_mtbf_hours: 1e12", "chip_mtbf_hours: nan", "fleet.chip_mtbf_hours is 'nan'; legal"),
        ("usd_per_chip_hour: 1", "usd_per_chip_hour: low", "fleet.usd_per_chip_hour is 'low': no"),
        ("usd_per_chip_hour: 1", "price: on_demand", "no public price (on_demand)"),
        ("usd_per_chip_hour: 1", "price: gift", "fleet.price is 'gift'; legal: on_demand"),
        (
            "usd_per_chip_hour: 1",
            "usd_per_chip_hour: 1\n  price: spot",
            "usd_per_chip_hour is given already",
        ),
        (
            "usd_per_chip_hour: 1",
            "usd_per_chip_hour: 1\n  watts_per_chip: {serving: 1, training: -1, idle: 0}",
            "fleet.watts_per_chip.training is '-1'; legal: a number from 0",
        ),
    ],
)
def test_bad_fleets_are_refused(scenario_of, old, new, said):
    with pytest.raises(BadInput) as error:
        scenario_of({old: new})
    assert said in str(error.value)
