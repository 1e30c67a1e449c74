"""The fields of an inventory, each with its legal values."""

import dataclasses

from trnsim.decide.inventory.fields import BilledRow, InventoryRow
from trnsim.decide.inventory.workload import VOLUME_UNITS, Shape
from trnsim.reader.declaration import fields_of
from trnsim.system.serve.demand import Slo


def test_each_field_says_what_it_means():
    for kind in (InventoryRow, BilledRow):
        assert all(field.rule.help and field.legal for field in fields_of(kind).values())


def test_fields_of_shapes_and_limits_are_those_of_the_workload():
    for part in (Shape, Slo):
        assert {field.name for field in dataclasses.fields(part)} <= {*fields_of(InventoryRow)}
    assert set(VOLUME_UNITS) <= {*fields_of(InventoryRow)}


def test_an_inventory_of_last_year_had_every_required_field():
    required = [name for name, field in fields_of(InventoryRow).items() if not field.is_optional]
    assert required == [
        *("workload", "model_config", "kind", "current_instance", "usd_per_month"),
    ]
