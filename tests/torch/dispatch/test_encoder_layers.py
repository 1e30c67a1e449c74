"""Attention and encoder layers in evaluation mode, beside PyTorch's operators of the CPU."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.device import compiled_graph
from trnsim.device.numerics import numerics
from trnsim.torch.call_recording import recording

HIDDEN_KEYS = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
LATER = torch.ones(7, 7, dtype=torch.bool).triu(1)
HEADS = torch.stack([LATER, LATER.t().flip(0)]).repeat(2, 2, 1, 1) & ~torch.eye(7).bool()
MASKS = {"none": (None, None), "places": (LATER, 0), "keys": (HIDDEN_KEYS, 1), "heads": (HEADS, 2)}


def on_device(values):
    return [v.to("neuron") if isinstance(v, torch.Tensor) else v for v in values]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("is_self_attention", [False, True])
@pytest.mark.parametrize("weights", ["averaged", "each", "none"])
def test_attention_is_that_of_the_cpu(mask, is_self_attention, weights):
    module = nn.MultiheadAttention(24, 4, batch_first=True).requires_grad_(False)
    projection = (module.in_proj_weight, module.in_proj_bias)
    projection += (module.out_proj.weight, module.out_proj.bias)
    query, key = torch.randn(2, 7, 24), torch.randn(2, 7, 24)
    values, kind = MASKS[mask]
    options = (values, weights != "none", weights == "averaged", kind)
    call = torch._native_multi_head_attention

    inputs = [query] * 3 if is_self_attention else [query, key, key]
    expected = call(*inputs, 24, 4, *projection, *options)
    moved = query.to("neuron")
    inputs = [moved] * 3 if is_self_attention else [moved, *[key.to("neuron")] * 2]
    with numerics("exact") as on_host:
        found = call(*inputs, 24, 4, *on_device(projection), *on_device(options))

    assert not on_host
    assert (found[1] is None) == (expected[1] is None)
    for mine, theirs in zip(found, expected, strict=True):
        if theirs is not None:
            torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture(params=[("relu", False), ("gelu", True)])
def encoder(request):
    activation, norm_first = request.param
    layer = nn.TransformerEncoderLayer(24, 4, 33, activation=activation, norm_first=norm_first)
    layer.self_attn.batch_first = True
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


@pytest.mark.parametrize("mask", [{}, {"src_key_padding_mask": HIDDEN_KEYS}, {"mask": LATER}])
def test_an_encoder_is_that_of_the_cpu_and_each_of_its_calls_has_a_time(encoder, mask):
    x = torch.randn(2, 7, 24)
    moved = {name: value.to("neuron") for name, value in mask.items()}
    with torch.no_grad(), recording() as recorded:
        expected = encoder(x, **mask)
        found = copy.deepcopy(encoder).to("neuron")(x.to("neuron"), **moved)
    torch.testing.assert_close(found.cpu(), expected)
    modules = {event.module for event in recorded.events}
    assert any(module.endswith("layers.1") for module in modules)
    for call in {event.call for event in recorded.events}:
        assert not call.time("trn2").missing_reason, call.name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_encoder_has_kernels(encoder, monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])
    x = torch.randn(2, 7, 24)
    model = copy.deepcopy(encoder).to("neuron")
    with torch.no_grad():
        found = torch.compile(model, backend="neuron")(x.to("neuron"))
        torch.testing.assert_close(found.cpu(), encoder(x))
    (graph,) = compiled_graph.compiled_graphs()
    assert not graph.missing
