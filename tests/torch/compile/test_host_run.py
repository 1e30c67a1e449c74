import warnings

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

from trnsim.device.numerics import numerics
from trnsim.torch.api.memory import place
from trnsim.torch.compile import compiler
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.dispatch.launches import launch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, backend="neuron", fullgraph=True)


def test_results_live_on_the_device_and_are_those_of_eager_calls():
    def function(x):
        return x.matmul(x.t()).softmax(-1), torch.arange(3, device="neuron") + x[0, 0]

    x = torch.randn(4, 4).to("neuron")
    for found, expected in zip(compiled(function)(x), function(x), strict=True):
        assert found.device == expected.device
        assert torch.equal(found.cpu(), expected.cpu())


def test_an_input_that_is_written_in_place_is_written():
    def function(x):
        x.mul_(2)
        return x + 1

    x = torch.ones(4, device="neuron")
    version = x._version
    result = compiled(function)(x)
    assert (x.tolist(), result.tolist()) == ([2] * 4, [3] * 4)
    assert x._version > version


def test_running_statistics_move():
    model = nn.BatchNorm1d(4).to("neuron")
    twin = nn.BatchNorm1d(4)
    x = torch.randn(16, 4)
    compiled(model)(x.to("neuron"))
    twin(x)
    assert torch.allclose(model.running_mean.cpu(), twin.running_mean)


def test_a_view_of_an_input_shares_its_memory():
    x = torch.zeros(4, 4, device="neuron")
    view = compiled(lambda x: x.t()[1:])(x)
    x.fill_(5)
    assert view.cpu().unique().tolist() == [5]


def test_what_backward_keeps_of_the_inputs_is_not_held_twice():
    model = compiled(nn.Linear(256, 256).to("neuron"))
    x = torch.randn(256, 256).to("neuron").requires_grad_()
    model(x)
    before = torch.neuron.memory_allocated()
    kept = model(x)
    assert torch.neuron.memory_allocated() - before == kept.nbytes


def test_random_numbers_are_the_devices():
    function = compiled(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(1000, device="neuron")
    torch.neuron.manual_seed(3)
    first = function(x).cpu()
    state = torch.get_rng_state()
    second = function(x).cpu()
    torch.neuron.manual_seed(3)
    assert torch.equal(function(x).cpu(), first)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_constants_of_the_graph_are_found():
    table = torch.arange(4.0, device="neuron")
    assert compiled(lambda x: x + table)(torch.ones(4, device="neuron")).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["exact", "shapes"])
def test_other_numerics_hold_in_a_compiled_graph_too(kind):
    x = torch.randn(8, 8).to("neuron")
    function = compiled(lambda x: (x * 3).tanh())
    with numerics(kind):
        found = function(x)
    assert found.shape == x.shape
    if kind == "exact":
        assert torch.allclose(found.cpu(), (x.cpu() * 3).tanh(), atol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_trains_in_a_graph_as_on_the_cpu(is_causal):
    def loss(query, key, value):
        attend = nn.functional.scaled_dot_product_attention
        return attend(query, key, value, is_causal=is_causal).square().mean()

    torch.manual_seed(0)
    given = [torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3)]
    ours = [tensor.detach().to("neuron").requires_grad_() for tensor in given]
    expected = loss(*given)
    expected.backward()
    found = compiled(loss)(*ours)
    found.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    for one, other in zip(ours, given, strict=True):
        assert torch.allclose(one.grad.cpu(), other.grad, atol=1e-6)


@pytest.mark.slow
def test_a_transformer_layer_trains_in_a_graph_as_on_the_cpu():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    twin = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    twin.load_state_dict(layer.state_dict())
    twin.to("neuron")
    ours = compiled(twin)
    for batch in (2, 4):  # another batch makes a graph of symbolic sizes
        x = torch.randn(batch, 8, 16)
        layer(x).square().mean().backward()
        ours(x.to("neuron")).square().mean().backward()
    for one, other in zip(twin.parameters(), layer.parameters(), strict=True):
        assert torch.allclose(one.grad.cpu(), other.grad, atol=1e-6)


def test_writing_to_a_result_leaves_what_the_gradient_needs():
    def function(x):
        return torch.dropout(x.relu(), 0.0, train=True) * 1

    def gradient(function, x):
        x = x.clone().requires_grad_()
        out = function(x)
        with torch.no_grad():
            out.mul_(0)
        out.sum().backward()
        return x.grad.cpu()

    x = torch.randn(8)
    assert torch.equal(gradient(compiled(function), x.to("neuron")), gradient(function, x))


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_a_tensor_that_the_program_writes_out_is_a_constant_of_the_graph(device):
    def function(x):
        return x + torch.tensor([1.0, 2.0], device=device).to("neuron")

    x = torch.ones(2).to("neuron")
    assert compiled(function)(x).tolist() == [2, 3]
    assert not compiler.compiled_graphs()[-1].missing


def test_a_tensor_from_outside_is_read_when_the_graph_runs():
    outside = torch.ones(2).to("neuron")
    function = compiled(lambda x: x * outside)
    assert function(torch.ones(2).to("neuron")).tolist() == [1, 1]
    outside.fill_(3)
    assert function(torch.ones(2).to("neuron")).tolist() == [3, 3]


def test_integers_are_counted_as_eager_calls_count_them():
    x = torch.tensor([1, 2, 3], dtype=torch.int32).to("neuron")
    assert compiled(lambda x: torch.histc(x, 4, 0, 4) * 2)(x).tolist() == [0, 2, 2, 2]


def test_what_the_host_refuses_the_device_says():
    function = compiled(lambda x, place: x[place] * 2)
    x = torch.arange(3.0).to("neuron")
    assert function(x, torch.tensor([1]).to("neuron")).tolist() == [2]
    with pytest.raises(IndexError, match="out of bounds"):
        function(x, torch.tensor([7]).to("neuron"))


@pytest.mark.parametrize("policy", ["chip", "host"])
def test_the_policy_holds_inside_a_graph(policy):
    x = torch.ones(2).to("neuron")
    function = compiled(lambda x: (x.double() * 2).float())
    before = torch.neuron.host_fallbacks().get("float64", 0)
    torch.neuron.set_policy(policy)
    try:
        if policy == "chip":
            with pytest.raises(BackendCompilerFailed, match="NCC_ESPP004: aten::_to_copy on f"):
                function(x)
        else:
            assert function(x).tolist() == [2, 2]
            assert torch.neuron.host_fallbacks()["float64"] > before
    finally:
        torch.neuron.set_policy("host")


def test_rounding_by_chance_holds_inside_a_graph():
    x = torch.full((4096,), 1.3).to("neuron")
    with numerics("fast", is_stochastic=True):
        assert len(compiled(lambda x: x.bfloat16() * 1)(x).unique()) == 2


COMPLEX = torch.complex(torch.arange(4.0), torch.arange(4.0) + 8)
REAL = torch.arange(4.0)


@pytest.mark.parametrize(
    ("view", "x"),
    [
        (torch.view_as_real, COMPLEX),
        (lambda x: x.real[1:], COMPLEX),
        (lambda x: torch.view_as_complex(x.view(2, 2)), REAL),
        (lambda x: x.view(torch.int32)[1:], REAL),
        (lambda x: x.view(torch.int16)[2:], REAL),
    ],
)
def test_views_in_another_dtype(view, x):
    ours = x.to("neuron")
    found = compiled(view)(ours)
    assert torch.equal(found.cpu(), view(x))
    ours.mul_(2)
    assert torch.equal(found.cpu(), view(x * 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * x.conj()).real,
        lambda x: (x @ x.mH).abs(),
        lambda x: x.conj().imag,
        lambda x: torch.view_as_real(x.conj().resolve_conj())[:, 1:],
    ],
)
@pytest.mark.parametrize("is_conjugated", [False, True])
@pytest.mark.filterwarnings("ignore::trnsim.torch.compile.refused.CompilerWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # Dynamo asks for it
def test_lazily_conjugated_views_that_backward_keeps(function, is_conjugated):
    def gradients(device, change):
        torch.manual_seed(0)
        leaf = torch.randn(3, 5, dtype=torch.complex64).to(device).requires_grad_()
        result = change(function)(leaf.conj() if is_conjugated else leaf)
        result.square().sum().backward()
        return result.detach().cpu(), leaf.grad.cpu()

    found, expected = gradients("neuron", compiled), gradients("cpu", lambda function: function)
    torch.testing.assert_close(found, expected)


def test_what_computes_eager_calls_is_never_traced():
    from torch._dynamo import trace_rules  # noqa: PLC0415  takes a second

    compiled(lambda x: x + 1)(torch.ones(2).to("neuron"))
    assert trace_rules.check(host_alias)
    assert trace_rules.check(place)
    assert not trace_rules.check(launch)


def test_exact_calls_behind_a_break_are_never_traced():
    from torch._dynamo.utils import counters  # noqa: PLC0415  takes a second

    x = torch.randn(6, 8, device="neuron")
    counters.clear()
    with numerics("exact"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the host finds the elements
        torch.compile(lambda x: x[x > 0].sum(), backend="neuron")(x)
    assert counters["frames"]["total"] <= 3, counters  # up to the index, the index, and behind it


def test_a_gradient_of_zeros_has_memory():
    x = torch.randn(4, device="neuron", requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(torch.sgn)(x).sum(), x)
    assert gradient.tolist() == [0] * 4


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0].t() + 1,
        lambda x: torch.pdist(x[:1]),
        lambda x: torch.cat([torch.pdist(x[:1]), x[0] * 2]),
        lambda x: (x[:0] * 2).sum() + x.sum(),
    ],
)
def test_what_has_one_dimension_or_no_element_is_compiled_too(function):
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(compiled(function)(x.to("neuron")).cpu(), function(x))
    assert not compiler.compiled_graphs()[-1].missing


def kept_attention(context, operator, *args, **kwargs):
    """A policy that keeps what attention gave, and computes the rest again."""
    del context, args, kwargs
    policy = torch.utils.checkpoint.CheckpointPolicy
    is_kept = operator is torch.ops.higher_order.flex_attention
    return policy.MUST_SAVE if is_kept else policy.PREFER_RECOMPUTE


# PyTorch's compiler looks at the gradient of every argument, which warns of those between.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_who_keeps_results_sees_none_of_the_hosts():
    from functools import partial  # noqa: PLC0415  of this test alone

    from torch.nn.attention.flex_attention import flex_attention  # noqa: PLC0415  imports much
    from torch.utils import checkpoint  # noqa: PLC0415  likewise

    attend = torch.compile(flex_attention, backend="neuron")
    policy = partial(checkpoint.create_selective_checkpoint_contexts, kept_attention)
    host = torch.randn(1, 2, 128, 16, generator=torch.Generator().manual_seed(0))

    def block(value, matrix):
        return attend(*([value @ matrix] * 3)).sin()

    def gradient(is_kept):
        matrix = torch.eye(16, device="neuron").requires_grad_()
        value = host.to("neuron")
        for _ in range(2):
            value = (
                checkpoint.checkpoint(block, value, matrix, use_reentrant=False, context_fn=policy)
                if is_kept
                else block(value, matrix)
            )
        value.sum().backward()
        return matrix.grad.cpu()

    torch.testing.assert_close(gradient(True), gradient(False))


def test_branches_make_tensors_and_draw_numbers_as_the_device_does():
    def choose(x):
        def dropped(x):
            made = torch.zeros(3, device=x.device) + torch.arange(3, device=x.device)
            return nn.functional.dropout(x, 0.5, training=True) + made

        return torch.cond(x.sum() > 0, dropped, torch.sin, (x,))

    def dropped(x):
        return nn.functional.dropout(x, 0.5, training=True) + torch.arange(3.0, device=x.device)

    x, function = torch.ones(40, 3).to("neuron"), compiled(choose)
    torch.manual_seed(3)
    found = function(x).cpu()
    torch.manual_seed(3)
    assert torch.equal(found, dropped(x).cpu())
    assert torch.equal(function(-x).cpu(), (-x).sin().cpu())
