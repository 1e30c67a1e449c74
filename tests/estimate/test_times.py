import pytest

from trnsim.estimate.estimate import EXCHANGES
from trnsim.estimate.times import LayerTime, Sources, SumErrors


def test_a_time_is_not_changed():
    found = LayerTime(2e-3, {"products": 2e-3}, 0.1, "few constants")
    with pytest.raises(AttributeError):
        found.time_s = 1.0


def test_one_source_is_said_once_and_several_with_their_parts():
    found = Sources()
    for part in ("embedding", "layer"):
        found.add("prefill", part, "few constants")
    for shape in range(3):
        found.add("decode", "layer", "measured" if shape else "few constants", shape)
        found.add("decode", "head", "few constants", shape)
    assert found.words() == {
        "prefill": "few constants",
        "decode": "few constants (layer in 1 of 3 shapes, head); measured (layer in 2 of 3 shapes)",
    }


@pytest.mark.parametrize(
    ("has_exchanges", "expected"), [(True, {"rows": 0.5}), (False, {"rows": 0.3, EXCHANGES: 0.4})]
)
def test_exchanges_err_as_rows_that_had_them_and_else_as_bytes(has_exchanges, expected):
    errors = SumErrors()
    for time_s, exchanged_s in ((1.0, 2.0), (2.0, 0.0)):
        errors.add(LayerTime(9.0, {}, 0.1, "rows", has_exchanges), time_s, exchanged_s)
    assert errors.by_source() == pytest.approx(expected)


def test_a_spread_is_added_in_squares_and_no_error_is_no_source():
    errors = SumErrors()
    errors.add(LayerTime(1.0, {}, 0.3, "rows"), 2.0, 0.0, more_spread=0.4)
    errors.add(LayerTime(1.0, {}, 0.0, "exact"), 2.0, 0.0)
    assert errors.by_source() == pytest.approx({"rows": 1.0})
