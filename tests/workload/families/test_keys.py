import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.keys import ConfigKeys


def keys(**given):
    return ConfigKeys(given, "mine.json")


def test_the_first_name_that_is_there_counts():
    assert keys(n_embd=3, hidden_size=4).whole("hidden_size", "n_embd") == 4
    assert keys(hidden_size=None, n_embd=3).whole("hidden_size", "n_embd") == 3
    assert keys().whole("hidden_size", default=7) == 7


@pytest.mark.parametrize(("least", "value"), [(1, 1), (0, 0), (-1, -1)])
def test_the_least_is_legal(least, value):
    assert keys(a=value).whole("a", minimum=least) == value
    with pytest.raises(BadInput, match=f"^mine.json: a is {value - 1}, it must be a "):
        keys(a=value - 1).whole("a", minimum=least)


def test_the_most_is_legal():
    assert keys(a=9).whole("a", maximum=9) == 9
    with pytest.raises(BadInput, match=r"a is 10, it must be a positive whole number, at most 9"):
        keys(a=10).whole("a", maximum=9)
    with pytest.raises(BadInput, match="at most 1,099,511,627,776"):
        keys(a=10**40).whole("a")


def test_a_flag_is_true_or_false():
    assert keys(a=True).flag("a")
    assert not keys(a=False).flag("a", default=True)
    assert keys().flag("a", default=True)
    with pytest.raises(BadInput, match=r"^mine\.json: a is 1; legal: true, false: it is a choice"):
        keys(a=1).flag("a")


def test_a_rule_is_always_never_or_a_key():
    assert keys().has_feature(rule=True)
    assert not keys().has_feature(rule=False)
    assert keys(a=True).has_feature(("a", False))
    assert keys().has_feature(("a", True))


def test_a_list_is_of_one_kind():
    assert keys(a=["b"]).items("a", str, "words") == ["b"]
    assert keys().items("a", str, "words") == []
    for wrong in ("b", [1], {"b": 1}):
        with pytest.raises(BadInput, match=r"^mine\.json: a is .*; legal: a list of words: "):
            keys(a=wrong).items("a", str, "words")
    with pytest.raises(BadInput, match="a is True; legal: a list of numbers"):
        keys(a=[True]).items("a", int, "numbers")


def test_a_nested_configuration_names_where_it_lies():
    inner = keys(a={"b": {"c": -1}}).nested("a").nested("b")
    with pytest.raises(BadInput, match=r"^mine\.json: a\.b\.c is -1, it must be a positive whole"):
        inner.whole("c")
    with pytest.raises(BadInput, match=r"key 'a\.b\.d' is missing; keys found of a\.b: c\n"):
        inner.whole("d")


def test_a_key_without_a_value_is_told_from_one_that_is_not_there():
    with pytest.raises(BadInput, match=r"key 'hidden' is null; keys found: hidden\n") as refused:
        keys(hidden=None).whole("hidden")
    assert "perhaps" not in str(refused.value)


def test_classes_are_counted_or_two():
    assert keys(id2label={"0": "a", "1": "b", "2": "c"}).labels() == 3
    assert keys(num_labels=5).labels() == 5
    assert keys().labels() == 2
    with pytest.raises(BadInput, match="id2label is 3; legal: an object"):
        keys(id2label=3).labels()


def test_an_error_has_the_line_of_the_key_where_the_file_has_it(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"a": 1,\n"b": {"hidden_": 3}}')
    found = ConfigKeys({"a": 0, "b": {"hidden_": 3}}, str(path))
    with pytest.raises(BadInput, match=r"mine\.json:1: a is 0, it must be") as refused:
        found.whole("a")
    assert refused.value.line == (str(path), 1)
    with pytest.raises(BadInput, match=r"mine\.json:2: key 'b\.hidden' is missing") as refused:
        found.nested("b").whole("hidden")
    assert refused.value.fix.endswith("perhaps 'hidden_' is meant to be it")
