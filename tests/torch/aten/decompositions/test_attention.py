import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.compiler.program import evaluate_program
from trnsim.torch import pytorch
from trnsim.torch.compile.fx_import import import_graph, is_lowered

torch.manual_seed(0)
HOW = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "masked": {"attn_mask": torch.ones(20, 30, dtype=torch.bool).tril(4)},
    "biased": {"attn_mask": torch.randn(2, 1, 20, 30)},
}


def both(how):
    """Attention and its gradients."""

    def call(q, k, v):
        leaves = [part.detach().requires_grad_() for part in (q, k, v)]
        named = {n: x.to(q.device) if isinstance(x, torch.Tensor) else x for n, x in how.items()}
        result = F.scaled_dot_product_attention(*leaves, **named)
        weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
        weights = weights.to(q.device, q.dtype)
        return [result.detach(), *torch.autograd.grad(result, leaves, weights)]

    return call


@pytest.mark.parametrize("how", HOW)
def test_attention_and_its_gradients(agree, how):
    q, k, v = torch.randn(2, 3, 20, 8), torch.randn(2, 3, 30, 8), torch.randn(2, 3, 30, 8)
    agree(both(HOW[how]), q, k, v, tolerance=2.0**-15)


def test_low_precision(agree):
    q, k, v = (torch.randn(1, 2, 140, 16).bfloat16() for _ in range(3))
    agree(both({"is_causal": True}), q, k, v, tolerance=2.0**-5)


CALLS = {
    "plain": ({}, [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)]),
    "causal": ({"is_causal": True}, [(2, 3, 5, 8)] * 3),
    "scaled": ({"scale": 0.3}, [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)]),
    "seen": (
        {"attn_mask": torch.ones(5, 7, dtype=torch.bool).tril(2)},
        [(2, 3, 5, 8), *[(2, 3, 7, 8)] * 2],
    ),
    "biased": ({"attn_mask": torch.randn(2, 1, 1, 7)}, [(2, 3, 5, 8), *[(2, 3, 7, 8)] * 2]),
    "shared": ({"enable_gqa": True}, [(2, 6, 5, 8), *[(2, 2, 7, 8)] * 2]),
    "one head": ({}, [(5, 8), (7, 8), (7, 4)]),
    "broadcast": ({}, [(1, 3, 5, 8), (2, 3, 7, 8), (2, 1, 7, 8)]),
}


@pytest.mark.slow_but("plain", "shared")
@pytest.mark.slow_cases("causal", "scaled", "one head")
@pytest.mark.filterwarnings("ignore:.*LeafSpec")
@pytest.mark.parametrize("call", CALLS)
def test_attention_of_an_exported_program_is_one_operation(call):
    options, shapes = CALLS[call]
    given = tuple(torch.randn(shape) for shape in shapes)

    class Model(torch.nn.Module):
        def forward(self, *given):
            return F.scaled_dot_product_attention(*given, **options)

    program = torch.export.export(Model(), given)
    lowered = program.run_decompositions(pytorch.decompositions(is_lowered))
    graph = import_graph(lowered.graph_module).graph
    assert [node.name for node in graph.nodes].count("attention") == 1
    constants = [tensor.numpy() for tensor in program.constants.values()]
    (found,) = graph.reference([*constants, *(tensor.numpy() for tensor in given)])
    torch.testing.assert_close(torch.from_numpy(found.copy()), Model()(*given))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_padding_mask_hides_keys_on_every_chip(dtype):
    # NeuronCore-v2 transposes by products with ones and zeros, which make NaN of infinities.
    given = [torch.randn(2, 3, 5, 16, dtype=dtype)]
    given += [torch.randn(2, 3, 300, 16, dtype=dtype) for _ in "kv"]
    mask = (torch.arange(300) < torch.tensor([200, 7])[:, None])[:, None, None]

    class Model(torch.nn.Module):
        def forward(self, query, key, value, mask):
            return F.scaled_dot_product_attention(query, key, value, mask)

    program = torch.export.export(Model(), (*given, mask))
    lowered = program.run_decompositions(pytorch.decompositions(is_lowered))
    graph = import_graph(lowered.graph_module).graph
    numpy_dtype = graph.inputs[0].type.numpy_dtype()
    arrays = [tensor.float().numpy().astype(numpy_dtype) for tensor in given]
    (found,) = evaluate_program(graph, [*arrays, mask.numpy()], "trn1")
    wanted = F.scaled_dot_product_attention(*(part.float() for part in given), mask)
    near = {"atol": 3e-2, "rtol": 3e-2} if dtype != torch.float32 else {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(torch.from_numpy(found.astype("float32")), wanted, **near)
