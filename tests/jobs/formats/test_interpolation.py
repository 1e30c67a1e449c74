import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats.interpolation import ConfigReader
from trnsim.reader import load_documents

TEXT = """\
a: 4
b:
  c: ${a}
  d: ${.c}
  e: {f: "${..d}", g: "${oc.env:HOME}", h: "${a}-1", i: "${no.such}"}
  few: -1
  loop: ${.pool}
  pool: ${.loop}
  deep: ${........a}
  name: two
  other: ${.name}
  list: [1]
null_: null
"""


@pytest.fixture
def reader(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(TEXT)
    return ConfigReader(load_documents(path)[0].root)


@pytest.mark.parametrize(
    ("keys", "target"),
    [
        (("a",), ("a",)),
        (("b", "c"), ("a",)),
        (("b", "d"), ("a",)),
        (("b", "e", "f"), ("a",)),
        (("b", "e", "g"), ("b", "e", "g")),
        (("b", "e", "h"), ("b", "e", "h")),
        (("b", "e", "i"), ("b", "e", "i")),
        (("b", "loop"), ("b", "loop")),
        (("b", "deep"), ("a",)),
        (("no",), ("no",)),
    ],
)
def test_a_value_that_stands_for_another_is_followed(reader, keys, target):
    assert reader.target_keys(keys) == target


def test_a_followed_field_is_kept_and_has_its_own_line(reader):
    assert reader.read_count(("b", "c"), "x") == 4
    assert reader.lines["x"].line == 3
    kept = {kept.name for kept in reader.sorted_kept_fields()}
    assert {"a", "b.c"} <= kept
    assert reader.read_count(("a",), "y") == 4
    assert reader.read_count(("b", "c"), "z") == 4
    kept = {kept.name for kept in reader.sorted_kept_fields()}
    assert "a" not in kept
    assert "b.c" in kept


def test_counts(reader):
    assert reader.read_count(("b", "few"), "x") is None
    assert reader.read_count(("null_",), "x") is None
    assert reader.read_count(("b", "e", "g"), "t") is None
    assert [value.text for value in reader.templates] == ["${oc.env:HOME}"]
    with pytest.raises(BadInput, match=r"10: b\.name is 'two'; legal: a whole number from 1 on"):
        reader.read_count(("b", "name"), "x")


def test_a_choice_is_kept_unless_a_writer_would_choose_its_name(reader):
    names = {"one": 1, "two": 2, "deux": 2, None: 0}
    assert reader.choice(("b", "name"), "x", names) == 2
    assert "b.name" not in {kept.name for kept in reader.sorted_kept_fields()}
    assert reader.choice(("b", "other"), "y", names) == 2
    assert "b.other" in {kept.name for kept in reader.sorted_kept_fields()}
    assert reader.choice(("null_",), "z", names) == 0
    assert reader.choice(("a",), "z", names) is None
    assert reader.choice(("b", "list"), "z", names) is None
    assert reader.choice(("no",), "z", names) is None
    assert reader.choice(("b", "name"), "x", {"deux": 2, "two": 2}) == 2
