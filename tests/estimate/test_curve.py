import pytest
from layer_sizes import LLAMA, layer

from trnsim.estimate.curve import MeasuredPoint, TimeCurve, signature
from trnsim.workload.architecture import Architecture, Attention, Experts, Layer, Mlp, Tower
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

GIVEN = Pass(Phase.PREFILL, 1, 512)
CURVE = TimeCurve(
    (
        MeasuredPoint(1, 128, 1e-4),
        MeasuredPoint(1, 512, 4e-4),
        MeasuredPoint(4, 128, 2e-4),
        MeasuredPoint(4, 512, 16e-4),
    )
)


def test_points_are_met():
    assert CURVE.interpolate(1, 128) == 1e-4
    assert CURVE.interpolate(4, 512) == 16e-4


def test_between_points_logarithms_are_straight():
    assert CURVE.interpolate(1, 256) == pytest.approx(2e-4)
    assert CURVE.interpolate(2, 128) == pytest.approx(2**0.5 * 1e-4)
    assert CURVE.interpolate(2, 256) == pytest.approx((2e-4 * (2e-4 * 16e-4) ** 0.5) ** 0.5)


@pytest.mark.parametrize(("batch", "length"), [(1, 127), (1, 513), (8, 128), (0.5, 128)])
def test_beyond_points_there_is_no_answer(batch, length):
    assert CURVE.interpolate(batch, length) is None


def test_more_is_never_faster():
    falling = TimeCurve(
        (MeasuredPoint(1, 128, 3e-4), MeasuredPoint(1, 256, 2e-4), MeasuredPoint(1, 512, 4e-4))
    )
    found = [falling.interpolate(1, length) for length in (128, 150, 256, 300, 512)]
    assert found == sorted(found)
    assert found[2] == 3e-4


def test_a_layer_is_known_by_its_sizes_on_a_rank():
    mine = signature(layer(LLAMA, GIVEN), GIVEN)
    step = Pass(Phase.DECODE, 8, 1, 2000)
    assert signature(layer(LLAMA, step), step) == mine
    assert signature(layer(LLAMA, GIVEN, Split(8)), GIVEN) != mine
    assert "query 4096 x 4096" in mine
    assert "32 heads of 128" in mine


def test_sizes_of_experts_are_told_before_their_router():
    mlp = Experts(8, 2, Mlp(64), shared=Mlp(32))
    layer = Layer(1, (Attention(4, 4, 8, 8),), mlp, norms=64)
    model = Architecture("small", "mixtral", (Tower("decoder", 32, (layer,)),))
    found = signature(summaries(model, Pass(Phase.PREFILL, 1, 16))[1], Pass(Phase.PREFILL, 1, 16))
    names = [part.rstrip("0123456789. x") for part in found.split(", ")]
    assert names == [
        *("query", "key and value", "output", "expert up", "expert down"),
        *("router", "shared up", "shared down", "4 heads of"),
    ]
