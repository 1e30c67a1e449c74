"""The declaration of a scenario's file."""

import pytest

from trnsim.reader.declaration import fields_of
from trnsim.system.fleet import fields

KINDS = [
    *(fields.WattsFields, fields.FleetFields, fields.PlanningFields, fields.ShapeFields),
    *(fields.ServiceFields, fields.JobFields, fields.ScenarioFields),
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_says_what_it_means_and_what_is_legal(kind):
    assert all(field.rule.help and field.legal for field in fields_of(kind).values())


def test_defaults_are_legal():
    for kind in KINDS:
        for name, field in fields_of(kind).items():
            if field.is_optional and isinstance(field.default, int | float):
                assert field.rule.allows(field.default), name
