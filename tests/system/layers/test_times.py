import pytest

from trnsim.system.layers.times import LayerTime


def test_a_time_is_not_changed():
    found = LayerTime(2e-3, {"products": 2e-3}, 0.1, "few constants")
    with pytest.raises(AttributeError):
        found.time_s = 1.0
