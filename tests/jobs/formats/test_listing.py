import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats.listing import (
    check_model,
    item_count,
    tagged_model,
    tags,
    with_gaps,
    with_indexes,
    with_names,
)
from trnsim.jobs.job import Job, KeptField
from trnsim.jobs.spec import SpecReader
from trnsim.reader import FileContent


def reader(content):
    return SpecReader(FileContent.of(content, "a.json").root)


def test_items_are_counted_and_others_refused():
    assert item_count(reader({"a": [{}, {}]}), "a") == 2
    assert item_count(reader({}), "a") == 0
    assert item_count(reader({"a": "${ITEMS}"}), "a") == 0
    assert item_count(reader({"a": ["${ITEM}"]}), "a") == 1
    with pytest.raises(BadInput, match="a is 'b'; legal: a list"):
        item_count(reader({"a": "b"}), "a")
    with pytest.raises(BadInput, match=r"a\[1\] is 3; legal: a mapping"):
        item_count(reader({"a": [{}, 3]}), "a")


def test_names_stand_for_indexes():
    kept = (KeptField(("a", 0, "x"), 1), KeptField(("a", 1, "b", 2), 2), KeptField(("c", 1), 3))
    by_name = with_names(kept, {("a",): {1: "second"}, ("a", "second", "b"): {2: "third"}})
    assert [field.keys for field in by_name] == [
        ("a", 0, "x"),
        ("a", "second", "b", "third"),
        ("c", 1),
    ]
    document = {"a": [{}, {"type": "other"}, {"name": "second", "b": [{"hostPath": "third"}]}]}
    assert [field.keys for field in with_indexes(document, by_name)] == [
        ("a", 0, "x"),
        ("a", 2, "b", 0),
        ("c", 1),
    ]
    assert with_indexes({"a": []}, by_name[1:2]) == ()


def test_written_items_stand_beside_those_kept_whole():
    kept = (
        KeptField(("a", 0, "name"), "kept"),
        KeptField(("a", 1, "other"), 1),
        KeptField(("a", 2, "name"), "kept"),
        KeptField(("b", 3, "name"), "elsewhere"),
    )
    ours = [{"name": "x"}, {"name": "y"}]
    assert with_gaps(ours, kept, ("a",), "name") == [{}, {"name": "x"}, {}, {"name": "y"}]
    assert with_gaps(ours, (), ("a",), "name") == ours
    assert with_gaps([], kept, ("a",), "name") == []


def test_a_tag_names_the_model():
    spec = reader({"t": [{"k": "team", "v": "a"}, {"k": "trnsim:model", "v": "llama"}]})
    assert tagged_model(spec, "t", key="k", value="v") == "llama"
    job = Job(model="llama", kept_fields=spec.kept_fields())
    assert tags(job, ("t",), key="k", value="v") == [{}, {"k": "trnsim:model", "v": "llama"}]
    assert tagged_model(reader({}), "t", key="k", value="v") == ""
    assert tags(Job(), ("t",), key="k", value="v") == []


@pytest.mark.parametrize("model", ["", "meta-llama/Llama-3.1_8B", "a b/config.json", "a" * 256])
def test_models_that_a_tag_can_hold(model):
    check_model(Job(model=model))


@pytest.mark.parametrize("model", ["a|b", "$MODEL", "a" * 257])
def test_a_model_that_no_tag_can_hold_is_refused(model):
    with pytest.raises(BadInput, match="legal for a tag: up to 256 letters"):
        check_model(Job(model=model))
