import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name
from torch.fx.experimental.proxy_tensor import make_fx

from trnsim.device.numerics import numerics
from trnsim.torch.compile.fx_import import import_graph

aten = torch.ops.aten
torch.manual_seed(0)
LINE, IMAGE, VOLUME = torch.randn(2, 3, 13), torch.randn(2, 3, 9, 12), torch.randn(1, 2, 5, 6, 4)
OF_RANK = {1: LINE, 2: IMAGE, 3: VOLUME}
CLOSE = 2.0**-16


def with_gradient(function):
    """The function's result, and the gradient of its weighted sum."""

    def call(x):
        leaf = x.detach().requires_grad_()
        result = function(leaf)
        weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(x.device)
        return [result.detach(), *torch.autograd.grad(result, leaf, weights)]

    return call


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("rank", OF_RANK)
@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "ceil_mode": True},
        {"kernel_size": 3, "padding": 1, "count_include_pad": False},
    ],
    ids=str,
)
def test_average_pools(agree, rank, how):
    pool = getattr(F, f"avg_pool{rank}d")
    agree(with_gradient(lambda x: pool(x, **how)), OF_RANK[rank], tolerance=CLOSE)


def test_a_divisor_of_ones_own(agree):
    agree(with_gradient(lambda x: F.avg_pool2d(x, 3, divisor_override=5)), IMAGE, tolerance=CLOSE)


@pytest.mark.parametrize(("rank", "size"), [(1, 5), (2, (4, 5)), (2, 1), (3, (2, 4, 3))])
def test_adaptive_pools_share_a_dimension_evenly(agree, rank, size):
    pool = getattr(F, f"adaptive_avg_pool{rank}d")
    agree(with_gradient(lambda x: pool(x, size)), OF_RANK[rank], tolerance=CLOSE)


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("0.5-2-bicubic", "1.7-2-bicubic", "2-2-bicubic")
@pytest.mark.parametrize(
    ("rank", "mode"),
    [(1, "linear"), (2, "bilinear"), (2, "bicubic"), (3, "trilinear"), (1, "nearest"),
     (2, "nearest"), (3, "nearest"), (2, "nearest-exact")],
)  # fmt: skip
@pytest.mark.parametrize("scale", [0.5, 1.7, 2])
def test_interpolation_and_its_gradient(agree, rank, mode, scale):
    for is_aligned in (None,) if "nearest" in mode else (False, True):
        sample = with_gradient(
            lambda x, a=is_aligned: F.interpolate(x, scale_factor=scale, mode=mode, align_corners=a)
        )
        agree(sample, OF_RANK[rank], tolerance=CLOSE)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", OF_RANK)
def test_padding_by_copies(agree, rank, mode):
    sides = (1, 2, 0, 3, 2, 1)[: 2 * rank]
    agree(with_gradient(lambda x: F.pad(x, sides, mode=mode)), OF_RANK[rank], tolerance=CLOSE)


@pytest.mark.parametrize(
    "resample",
    [
        lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
        lambda x: F.avg_pool2d(x, (3, 2)),
        lambda x: F.avg_pool2d(x, 2, divisor_override=3),
        lambda x: F.interpolate(x, scale_factor=(2, 3), mode="nearest"),
        lambda x: F.adaptive_avg_pool1d(x[0], 6),
    ],
    ids=["adaptive", "average", "divisor", "nearest", "1d"],
)
def test_equal_windows_side_by_side_need_no_product(agree, resample):
    x = torch.rand(2, 3, 12, 6)
    agree(with_gradient(resample), x, tolerance=CLOSE)
    graph = make_fx(with_gradient(resample), tracing_mode="fake")(x)
    names = {node.operation.name for node in import_graph(graph).graph.nodes}
    assert "dot_general" not in names


def test_low_precision_is_rounded_once(agree):
    agree(lambda x: F.adaptive_avg_pool2d(x, 2), IMAGE.bfloat16(), tolerance=2.0**-8)


@pytest.mark.parametrize("element", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    "resample",
    [lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), lambda x: F.interpolate(x, size=(7, 3))],
)
def test_a_matrix_does_not_spread_an_infinite_element(resample, element):
    x = torch.arange(1.0, 26.0).reshape(1, 1, 5, 5)
    x[0, 0, 2, 2] = element
    with numerics("exact") as on_host:
        found = resample(x.to("neuron")).cpu()
    torch.testing.assert_close(found, resample(x), rtol=0, atol=0, equal_nan=True)
    assert list(on_host.values()) == [1]
