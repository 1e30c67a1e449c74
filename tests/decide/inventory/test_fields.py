"""The fields of an inventory, each with its legal values."""

import dataclasses

from trnsim.decide.inventory.fields import FIELDS, NAMES, REQUIRED
from trnsim.decide.inventory.workload import VOLUME_UNITS, Shape, Slo


def test_no_field_stands_twice_and_each_says_what_it_means():
    assert len(set(NAMES)) == len(NAMES)
    assert all(field.meaning and field.legal for field in FIELDS)


def test_fields_of_shapes_and_limits_are_those_of_the_workload():
    for part in (Shape, Slo):
        assert {field.name for field in dataclasses.fields(part)} <= set(NAMES)
    assert set(VOLUME_UNITS) <= set(NAMES)


def test_an_inventory_of_last_year_had_every_required_field():
    assert REQUIRED == ("workload", "model_config", "kind", "current_instance", "usd_per_month")
