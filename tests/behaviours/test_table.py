"""Tests of the whole table of behaviours."""

import re

import pytest

from trnsim.behaviours import VERSIONS, Effect
from trnsim.behaviours.table import TABLE


@pytest.mark.parametrize("row", TABLE.values(), ids=list(TABLE))
def test_each_row_has_two_sides_a_replacement_and_a_source(row):
    held = [version.follows(row) for version in VERSIONS.values()]
    assert any(held)
    assert not all(held)
    assert row.rule != row.otherwise
    assert row.instead
    assert row.source
    assert not re.search(r"[.]$", row.rule + row.otherwise + row.instead)
    assert isinstance(row.effect, Effect)


def test_each_form_is_of_one_row():
    forms = [row.form for row in TABLE.values() if row.form]
    assert len(forms) == len(set(forms))
    assert len(TABLE) > 60
