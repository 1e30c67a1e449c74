"""Fields of a YAML mapping."""

import math

import pytest

from trnsim import yaml_file
from trnsim.errors import BadInput
from trnsim.system.fleet.fields import Fields

TEXT = """\
fleet:
  chips: 64
  name: north
  part: 0.5
  hours: [1, 2, 3]
"""


def fields(tmp_path, text=TEXT, legal=("chips", "name", "part", "hours")):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    return Fields.of(yaml_file.read(path), "", ("fleet",)).mapping("fleet", legal)


def test_values_are_read_by_kind(tmp_path):
    found = fields(tmp_path)
    assert found.whole("chips", least=1) == 64
    assert found.text("name") == "north"
    assert found.number("part", least=0, most=1) == 0.5
    assert found.numbers("hours", 3, least=0, most=3) == (1, 2, 3)
    assert "chips" in found
    assert "other" not in found


def test_what_is_left_out_has_its_default(tmp_path):
    found = fields(tmp_path)
    assert found.whole("more", least=1, default=2) == 2
    assert found.number("more", least=1, default=2.5) == 2.5
    assert found.text("more", "so") == "so"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fleet:\n  chip: 64\n",
            "a.yaml:2: fleet.chip: not known; legal: chips, name, part, hours",
        ),
        ("fleet: 3\n", "a.yaml:1: fleet: legal: a mapping of fields: chips, name, part, hours"),
        ("fleets:\n  chips: 3\n", "a.yaml:1: fleets: not known; legal: fleet"),
        ("fleet:\n  chips: 3\n  chips: 4\n", "a.yaml:3: chips is given twice, first in line 2"),
    ],
)
def test_other_fields_are_refused(tmp_path, text, message):
    with pytest.raises(BadInput) as error:
        fields(tmp_path, text)
    assert error.value.reason.removeprefix(f"{tmp_path}/") == message


@pytest.mark.parametrize("given", ["8,000", "8.000", "64 chips", "50 %", "$3", "1.5", "yes"])
def test_what_is_no_whole_number_is_refused(tmp_path, given):
    found = fields(tmp_path, f"fleet:\n  name: a\n  chips: '{given}'\n")
    with pytest.raises(BadInput, match=r"a\.yaml:3: fleet\.chips is .*: is no whole number"):
        found.whole("chips", least=0)


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "1e30"])
def test_a_number_outside_its_range_is_refused(tmp_path, given):
    found = fields(tmp_path, f"fleet:\n  part: {given}\n")
    with pytest.raises(BadInput, match=rf"fleet\.part is '{given}': legal: from 1 to 1,000\n"):
        found.number("part", least=1, most=1000)


def test_a_number_without_a_limit_is_finite(tmp_path):
    found = fields(tmp_path, "fleet:\n  part: inf\n")
    with pytest.raises(BadInput, match="legal: from 0 on, and finite"):
        found.number("part", least=0, most=math.inf)


def test_what_is_missing_is_named_with_the_mappings_line(tmp_path):
    found = fields(tmp_path, "\nfleet:\n  part: 1\n")
    with pytest.raises(BadInput, match=r"a\.yaml:2: fleet\.chips: missing; this field is required"):
        found.whole("chips", least=1)


@pytest.mark.parametrize("given", ["[1, 2]", "[1, 2, x]", "[1, 2, 9]", "4", "{a: 1}"])
def test_another_list_is_refused(tmp_path, given):
    found = fields(tmp_path, f"fleet:\n  hours: {given}\n")
    with pytest.raises(BadInput, match=r"fleet\.hours"):
        found.numbers("hours", 3, least=0, most=3)


def test_a_choice_is_among_the_legal_ones(tmp_path):
    assert fields(tmp_path).one_of("name", ("north", "south")) == "north"
    with pytest.raises(BadInput, match=r"fleet\.name is 'north': legal: east, west"):
        fields(tmp_path).one_of("name", ("east", "west"))


@pytest.mark.parametrize("given", ["[a]", "''", "{a: b}"])
def test_a_text_is_one_text(tmp_path, given):
    with pytest.raises(BadInput, match="legal: a text"):
        fields(tmp_path, f"fleet:\n  name: {given}\n").text("name")
