import ast
from pathlib import Path

import pytest
import yaml

import trnsim.jobs
from trnsim.errors import BadInput
from trnsim.jobs.correction import (
    count_fix,
    field_fix,
    memory_fix,
    near_name,
    quantity_fix,
    time_fix,
)
from trnsim.jobs.formats import read_specs
from trnsim.jobs.formats.kubernetes_quantity import parse_quantity
from trnsim.jobs.formats.sbatch_options import memory_bytes, time_limit_s

FOLDER = Path(trnsim.jobs.__file__).parent
HOUR_S, DAY_S = 3600, 86_400


def value_of(fix):
    """The text that a fix says to write."""
    return fix.removeprefix("write ")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", DAY_S),
        ("1d12h", 1.5 * DAY_S),
        ("90 min", 5400),
        ("90m", 5400),
        ("1.5 hours", 5400),
        ("30s", 30),
        ("2 days", 2 * DAY_S),
        ("1:00:00:00", DAY_S),
        ("1h 30m", 5400),
    ],
)
def test_a_time_in_other_words_is_one_of_slurm(text, seconds):
    with pytest.raises(ValueError, match=r"."):
        time_limit_s(text)
    assert time_limit_s(value_of(time_fix(text))) == seconds


@pytest.mark.parametrize("text", ["", "soon", "24h!", "h", "1:2:3:4:5", "-5h"])
def test_what_is_no_time_has_an_example(text):
    assert time_fix(text) == "write 1-00:00:00 for a day, or 30 for half an hour"


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 GB", 64 << 30), ("64GiB", 64 << 30), ("1.5T", 1536 << 30), ("0.5 K", 1 << 10)],
)
def test_a_size_in_other_words_is_one_of_slurm(text, size):
    with pytest.raises(ValueError, match=r"."):
        memory_bytes(text)
    assert memory_bytes(value_of(memory_fix(text))) == size


@pytest.mark.parametrize("text", ["", "all", "64 parsec", "64E", "-1G"])
def test_what_is_no_size_has_an_example(text):
    assert memory_fix(text) == "write 64G for 64 GiB, or 0 for all memory of a node"


@pytest.mark.parametrize(
    ("value", "number"),
    [("64GB", 64 << 30), ("64 Gi", 64 << 30), ("16 cpus", 16), ("0.5 TiB", 1 << 39)],
)
def test_a_quantity_in_other_words_is_one_of_kubernetes(value, number):
    assert parse_quantity(value) is None
    assert parse_quantity(value_of(quantity_fix(value))) == number


@pytest.mark.parametrize("value", [-1, "much", "", True, [1]])
def test_what_is_no_quantity_has_an_example(value):
    assert quantity_fix(value) == "write a number with or without a unit, as 8, 500m or 64Gi"


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("4 nodes", "write 4"),
        ("08x", "write 8"),
        ("four", "write a whole number"),
        ("0 nodes", "write a whole number"),
        (0, "write a whole number"),
        (2.5, "write a whole number"),
        (-3, "write a whole number"),
    ],
)
def test_a_count_is_the_number_that_a_text_begins_with(value, fix):
    assert count_fix(value) == fix


@pytest.mark.parametrize(
    ("why", "value", "fix"),
    [
        ("legal: true, false", "Yes", "write true"),
        ("legal: true, false", "off", "write false"),
        ("legal: true, false", "maybe", "write true or false"),
        ("legal: a whole number from 1 on", "2 nodes", "write 2"),
        ("legal: a whole number from 1 on", None, "add a: a whole number from 1 on"),
        ("legal: a mapping", 3, "write the fields of a below it, each as FIELD: VALUE"),
        ("legal: a list", 3, "write a as a list: each item after a dash, or in brackets"),
        ("legal: text", [], "write a as one text"),
        ("legal: 0:2, 3:3", "7:", "write 0:2, 3:3"),
        ("another reason", 3, ""),
    ],
)
def test_a_fix_says_what_to_write(why, value, fix):
    assert field_fix("a", why, value) == fix


def test_a_near_name_has_other_capitals_or_a_letter_more():
    assert near_name("Containers", ["name", "containers"]) == "containers"
    assert near_name("container", ["name", "Containers"]) == "Containers"
    assert near_name("volumes", ["name", "containers"]) == ""
    assert near_name("a" * 10**6, ["name"]) == ""


def test_a_misspelled_field_that_is_needed_is_named_with_its_line(tmp_path):
    path = tmp_path / "pod.yaml"
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"container": [{"name": "a", "image": "b"}]}}
    path.write_text(yaml.safe_dump(pod | {"metadata": {"name": "x"}}, sort_keys=False))
    with pytest.raises(BadInput, match="containers is missing; legal: a list of one") as error:
        read_specs(path)
    assert error.value.fix == "rename container, at line 4, to containers"


def test_every_refusal_of_the_room_says_what_to_do():
    """Readers of specs have a fix of their own; other errors state theirs."""
    without = []
    for file in FOLDER.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if "BadInput(" in text else "")):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            has_fix = any(word.arg == "fix" for word in node.keywords)
            if name == "BadInput" and not has_fix:
                without.append(f"{file.name}:{node.lineno}")
    assert without == []


@pytest.mark.parametrize("text", ["2 months", "500ms", "3 dozen", "4 hosts"])
def test_a_word_that_begins_like_a_unit_is_no_time(text):
    assert time_fix(text) == "write 1-00:00:00 for a day, or 30 for half an hour"


@pytest.mark.parametrize("value", ["4 EFA", "4 pods", "4 tasks", "4 mice", "4 GPUs"])
def test_a_word_that_begins_like_a_unit_is_no_size(value):
    assert quantity_fix(value) == "write 4"
    assert memory_fix(value) == "write 64G for 64 GiB, or 0 for all memory of a node"
