import pytest

from trnsim.estimate.times import LayerTime, Sources


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
