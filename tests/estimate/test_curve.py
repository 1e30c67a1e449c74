import pytest
from layer_sizes import LLAMA, layer

from trnsim.estimate.curve import Curve, Point, signature
from trnsim.workload.operators import Pass, Phase, Split

GIVEN = Pass(Phase.PREFILL, 1, 512)
CURVE = Curve((Point(1, 128, 1e-4), Point(1, 512, 4e-4), Point(4, 128, 2e-4), Point(4, 512, 16e-4)))


def test_points_are_met():
    assert CURVE.at(1, 128) == 1e-4
    assert CURVE.at(4, 512) == 16e-4


def test_between_points_logarithms_are_straight():
    assert CURVE.at(1, 256) == pytest.approx(2e-4)
    assert CURVE.at(2, 128) == pytest.approx(2**0.5 * 1e-4)
    assert CURVE.at(2, 256) == pytest.approx((2e-4 * (2e-4 * 16e-4) ** 0.5) ** 0.5)


@pytest.mark.parametrize(("batch", "length"), [(1, 127), (1, 513), (8, 128), (0.5, 128)])
def test_beyond_points_there_is_no_answer(batch, length):
    assert CURVE.at(batch, length) is None


def test_more_is_never_faster():
    falling = Curve((Point(1, 128, 3e-4), Point(1, 256, 2e-4), Point(1, 512, 4e-4)))
    found = [falling.at(1, length) for length in (128, 150, 256, 300, 512)]
    assert found == sorted(found)
    assert found[2] == 3e-4


def test_a_layer_is_known_by_its_sizes_on_a_rank():
    mine = signature(layer(LLAMA, GIVEN), GIVEN)
    step = Pass(Phase.DECODE, 8, 1, 2000)
    assert signature(layer(LLAMA, step), step) == mine
    assert signature(layer(LLAMA, GIVEN, Split(8)), GIVEN) != mine
    assert "query 4096 x 4096" in mine
    assert "32 heads of 128" in mine
