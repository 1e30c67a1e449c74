import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.module_patterns import ModulePatterns

MODULE = "model.layers.1.mlp.gate_proj"


def of(names, method="fp8"):
    return ModulePatterns(ConfigKeys({"ignore": names}, "mine.json"), "ignore", method)


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        (MODULE, True),
        ("model.layers.1", True),
        ("model.layers.1.mlp", True),
        ("mlp.gate_proj", True),
        ("gate_proj", True),
        ("mlp", True),
        ("_proj", True),
        ("model.layers.11", False),
        ("model.layers.1.mlp.gate", False),
        ("mlp.gate", False),
        ("model.layers.*.mlp", True),
        ("model.layers.[02].mlp", False),
        ("re:.*mlp.*", True),
        ("re:.*attn.*", False),
    ],
)
def test_a_name_of_transformers_ends_between_words(name, is_there):
    assert of([name]).has_module(MODULE) is is_there
    assert of(["lm_head", name]).has_any(["lm", MODULE]) is is_there


@pytest.mark.parametrize(
    ("name", "is_there"),
    [(MODULE, True), ("mlp", False), ("re:.*mlp", True), ("re:mlp", False), ("re:.*mlp$", False)],
)
def test_a_name_of_compressed_tensors_is_whole(name, is_there):
    assert of([name], "compressed-tensors").has_module(MODULE) is is_there


@pytest.mark.parametrize(
    ("name", "is_there"), [("*.mlp.*", True), ("*layers.1*", True), ("x*", False)]
)
def test_a_name_of_modelopt_has_wildcards(name, is_there):
    assert of([name], "modelopt").has_module(MODULE) is is_there


@pytest.mark.parametrize("method", ["fp8", "compressed-tensors"])
def test_a_pattern_with_many_ways_to_fail_fails_soon(method):
    assert not of(["re:([a-z.0-9_]+)+!"], method).has_module(MODULE * 3)


def test_a_class_is_told_apart_and_is_the_default():
    assert of(["Linear"], "compressed-tensors").is_of_class
    assert of(None, "compressed-tensors").is_of_class
    assert not of(["re:.*"], "compressed-tensors").is_of_class
    assert not of(["Linear"]).is_of_class


@pytest.mark.parametrize(
    ("name", "has_numbers"),
    [
        ("lm_head", False),
        ("model.layers.*.mlp", False),
        ("layers.1", True),
        (r"\d", True),
        ("[x]", True),
        ("layers.?.mlp", True),
    ],
)
def test_names_that_may_depend_on_the_layer_are_told_apart(name, has_numbers):
    assert of([name]).has_numbers is has_numbers


def test_a_list_is_one_of_texts():
    with pytest.raises(BadInput, match=r"^mine\.json: ignore is 'mlp'; legal: a list of names"):
        of("mlp")
    with pytest.raises(BadInput, match=r"^mine\.json: ignore is 1; legal: a list of names"):
        of([1])
