"""The inventory that is printed to be filled in."""

import shutil
from datetime import date

import pytest
from inventories import EXAMPLES

from trnsim.decide.inventory import read, template
from trnsim.decide.inventory.fields import InventoryRow
from trnsim.reader.declaration import fields_of


@pytest.mark.parametrize("name", ["inventory.yaml", "inventory.csv", "inventory"])
def test_it_is_a_legal_inventory_whatever_its_name(tmp_path, name):
    shutil.copy(EXAMPLES / "llama-3.1-8b.json", tmp_path / "config.json")
    path = tmp_path / name
    path.write_text(template(), encoding="utf-8")
    (found,) = read(path)
    assert (found.name, found.kind, found.volume) == ("chat", "serve", 6e9)
    assert (found.current.count, found.current.usd_per_month) == (2, 80000)
    assert (found.other_clouds, found.is_portability_needed) == (("gcp",), False)
    assert found.as_of == date(2026, 10, 31)
    assert found.assumptions == ()


def test_every_field_stands_there_with_its_meaning_unit_and_legal_values():
    text = " ".join(line.strip().removeprefix("#").strip() for line in template().splitlines())
    for field in fields_of(InventoryRow).values():
        assert f"{field.rule.help}; legal: {field.legal}" in text


def test_it_fits_a_terminal():
    assert max(map(len, template().splitlines())) <= 100
