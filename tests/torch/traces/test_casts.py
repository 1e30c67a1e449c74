import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.compiler import Flags
from trnsim.torch.traces.casts import cast_module
from trnsim.torch.traces.fx_program import graph_module


def computed(stored, function, example, **flags):
    traced, program = stored(function, example)
    module = cast_module(graph_module(program, "cpu"), Flags(**flags))
    inputs = example if isinstance(example, tuple) else (example,)
    return module(*traced.weights.values(), *inputs)[0]


def short(tensor, dtype=torch.bfloat16):
    return tensor.to(dtype).float()


def test_without_a_cast_the_module_stays(scaled):
    module = graph_module(scaled, "cpu")
    assert cast_module(module, Flags()) is module
    assert cast_module(module, Flags(auto_cast="all", auto_cast_type="tf32")) is module


def test_factors_of_a_product_are_rounded_and_its_addend_is_not(stored):
    x, w, b = torch.randn(4, 8), torch.randn(8, 3), torch.randn(3)
    result = computed(stored, lambda x: torch.addmm(b, x, w) + 1e-3, x, auto_cast="matmult")
    torch.testing.assert_close(result, b + short(x) @ short(w) + 1e-3, rtol=1e-6, atol=1e-6)
    assert result.dtype is torch.float32


@pytest.mark.parametrize(
    ("function", "shapes", "addends"),
    [
        (torch.mm, [(4, 8), (8, 3)], 0),
        (torch.bmm, [(2, 4, 8), (2, 8, 3)], 0),
        (torch.mv, [(4, 8), (8,)], 0),
        (torch.dot, [(8,), (8,)], 0),
        (torch.vdot, [(8,), (8,)], 0),
        (torch.addmm, [(4, 3), (4, 8), (8, 3)], 1),
        (torch.addmv, [(4,), (4, 8), (8,)], 1),
        (torch.baddbmm, [(2, 4, 3), (2, 4, 8), (2, 8, 3)], 1),
        (torch.addbmm, [(4, 3), (2, 4, 8), (2, 8, 3)], 1),
        (torch.conv1d, [(1, 2, 9), (3, 2, 3)], 0),
        (torch.conv_transpose2d, [(1, 2, 5, 5), (2, 3, 3, 3)], 0),
        (torch.nn.functional.scaled_dot_product_attention, [(1, 2, 4, 8)] * 3, 0),
        (torch.nn.functional.scaled_dot_product_attention, [*[(1, 2, 4, 8)] * 3, (4, 4)], 0),
    ],
)
def test_each_product_rounds_its_factors(stored, function, shapes, addends):
    values = [torch.randn(shape) for shape in shapes]
    _, program = stored(function, tuple(values))
    module = cast_module(graph_module(program, "neuron"), Flags(auto_cast="matmult"))
    (result,) = module(*[value.to("neuron") for value in values])
    factors = [value if at < addends else short(value) for at, value in enumerate(values)]
    torch.testing.assert_close(result.cpu(), function(*factors), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(result.cpu(), function(*values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_all_rounds_weights_and_inputs_too(stored, sign):
    weight = torch.tensor([sign * (1 + 2**-12)])
    result = computed(stored, lambda x: (x * weight) * 4096, torch.tensor([1.0]), auto_cast="all")
    assert result.item() == sign * 4096


def test_the_bias_of_a_convolution_is_not_rounded(stored):
    x, conv = torch.randn(1, 2, 5, 5), torch.nn.Conv2d(2, 3, 3)
    result = computed(stored, conv, x, auto_cast="matmult", auto_cast_type="fp16")
    half = torch.float16
    expected = torch.nn.functional.conv2d(short(x, half), short(conv.weight, half), conv.bias)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_all_rounds_every_result_but_those_of_integers(stored):
    x = torch.randn(4)
    result = computed(stored, lambda x: x + torch.arange(257, 261).float(), x, auto_cast="all")
    assert torch.equal(result, short(short(x) + torch.arange(257, 261)))


def test_a_tensor_of_another_type_is_not_rounded(stored):
    x = torch.randn(4, 4, dtype=torch.float64)
    assert torch.equal(computed(stored, lambda x: x @ x, x, auto_cast="all"), x @ x)
