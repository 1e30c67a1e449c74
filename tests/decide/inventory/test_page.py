"""docs/inventories.md says what the fields are, and what its programs print."""

import re
from pathlib import Path

import pytest
import yaml
from bills import bill
from inventories import put

from trnsim.decide.inventory import read
from trnsim.decide.inventory.fields import InventoryRow
from trnsim.reader import field_table

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "inventories.md").read_text(encoding="utf-8")


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_table_of_fields_is_that_of_the_program():
    assert field_table(InventoryRow) in PAGE


def test_the_program_prints_what_stands_below_it(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(block("python"), "inventories.md", "exec"), {})  # noqa: S102  that is the test
    assert capsys.readouterr().out == block("text")


def test_the_file_beside_a_bill_is_legal(tmp_path):
    models = block("yaml").replace("llama.json", "model.json").replace("clip.json", "model.json")
    put(tmp_path, models, "october.models.yaml")
    found = read(bill(tmp_path, {}, {"line_item_usage_type": "BoxUsage:g6e.xlarge",
                                     "resource_tags": {}}))  # fmt: skip
    assert [one.name for one in found] == [row["workload"] for row in yaml.safe_load(models)]
    assert found[1].current.usd_per_month == pytest.approx(55.04)
