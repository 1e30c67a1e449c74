from trnsim.jax.pjrt.named_values import NamedValues, values_at


def test_every_kind_of_value_comes_back_as_it_was_given():
    given = {"name": "trn2", "flag": True, "count": -1, "peak": 0.5, "sides": [2, 0, -3]}
    made = NamedValues(given)
    assert values_at(made.address, made.size) == given


def test_no_values_are_an_array_of_none():
    made = NamedValues({})
    assert made.size == 0
    assert values_at(made.address, 0) == {}
    assert values_at(None, 0) == {}
