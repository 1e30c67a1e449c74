"""Compiled graphs in exact numerics: the program that was timed has the values."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn
from torch.nn import functional

from trnsim import compiler
from trnsim.compiler import program
from trnsim.device import compiled_graph
from trnsim.device.numerics import numerics
from trnsim.lower import program as lowered
from trnsim.torch.aten.decompositions import DECOMPOSITIONS
from trnsim.torch.compile.refused import CompilerWarning

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])


@pytest.fixture
def runs(monkeypatch):
    """The runs of programs with values."""
    found, trace = [], lowered.trace

    def watched(*args, numerics, **options):
        one = trace(*args, numerics=numerics, **options)
        found.extend([one.run] if numerics else [])
        return one

    monkeypatch.setattr(lowered, "trace", watched)
    return found


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(48, 48) for _ in range(4))

    def forward(self, x):
        query, key, value = (p(x).view(2, 9, 3, 16).transpose(1, 2) for p in self.parts[:3])
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + self.parts[3](found.transpose(1, 2).reshape(2, 9, 48))


class RootMeanSquare(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 48))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return self.scale * wide.to(x.dtype)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(48, 130), nn.GELU(), nn.Linear(130, 1)), (5, 48)),
    "attention": (Attention, (2, 9, 48)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, stride=2)
        ),
        (2, 3, 12, 10),
    ),
    "layer norm": (lambda: nn.LayerNorm(48), (3, 7, 48)),
    "root mean square": (RootMeanSquare, (1, 130, 48)),
}


@pytest.mark.slow_cases("mlp-float32", "mlp-bfloat16", "root mean square-float32")
@pytest.mark.slow_cases(
    "attention-bfloat16", "attention-float32", "convolutions-bfloat16", "convolutions-float32"
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_and_trains_by_the_programs_that_were_timed(name, dtype, runs):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, x = make().to(dtype), torch.randn(shape, dtype=dtype)
    wanted = model(x)
    wanted.float().square().mean().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    ours = torch.compile(model.to("neuron"), backend="neuron", dynamic=False)
    with numerics("exact") as on_host, warnings.catch_warnings():
        warnings.simplefilter("error", CompilerWarning)
        found = ours(x.to("neuron"))
        found.float().square().mean().backward()
    assert not on_host
    limit = 0.03 if dtype is torch.bfloat16 else 1e-4
    for one, other in zip(
        [found, *(parameter.grad for parameter in model.parameters())],
        [wanted, *gradients],
        strict=True,
    ):
        apart = (one.detach().cpu().float() - other.detach().float()).abs().max()
        assert apart <= limit * other.abs().max().clamp(min=1e-2)
    graphs = compiled_graph.compiled_graphs()
    assert [one.name for one in graphs] == ["forward-0", "backward-0"]
    timed = [compiler.compile(one.graph, "trn2", weights=one.weights) for one in graphs]
    assert [len(run.timeline) for run in runs] == [one.instructions for one in timed]
    times_s = [run.timeline.device_time_s for run in runs]
    assert times_s == pytest.approx([one.device_time_s for one in timed])


def exactly(function, *args):
    """What a compiled function gives in exact numerics, without a warning, on the CPU."""
    ours = torch.compile(function, backend="neuron", dynamic=False)
    given = [one.to("neuron") if isinstance(one, torch.Tensor) else one for one in args]
    with numerics("exact"), warnings.catch_warnings():
        warnings.simplefilter("error", CompilerWarning)
        found = ours(*given)
    return [one.cpu() for one in found] if isinstance(found, tuple) else found.cpu()


def test_results_have_the_strides_and_aliases_of_the_hosts(runs):
    x = torch.randn(3, 5, 130)

    def function(x):
        y = x * 2
        return y.transpose(0, 2), x, x[:, 1:], y, y.sum(-1).expand(4, 3, 5), x.mT + 1

    given = x.to("neuron")
    with numerics("exact"):
        found = torch.compile(function, backend="neuron", dynamic=False)(given)
    assert len(runs) == 1
    for one, other in zip(found, function(x), strict=True):
        assert one.stride() == other.stride()
        assert torch.allclose(one.cpu(), other, atol=1e-4)
    found[2].zero_()
    assert not given[:, 1:].any()


def test_integers_and_truth_values_are_whole(runs):
    x = torch.tensor([[-3, 0, 7], [2**30, -(2**31), 5]])
    found = exactly(lambda x: (x + 1, x > 0, x.to(torch.int8), x.int() * 2), x)
    assert len(runs) == 1
    wanted = (x + 1, x > 0, x.to(torch.int8), x.int() * 2)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.slow
def test_inputs_of_any_strides_are_read_as_they_lie(runs):
    x = torch.randn(6, 8, 10)
    given = [x.permute(2, 0, 1), x[:, 1::2, :], x[:1].expand(4, 8, 10), x[0, 0]]
    for one in given:
        torch._dynamo.reset()
        assert torch.allclose(exactly(lambda x: (x + 1).tanh(), one), (one + 1).tanh(), atol=1e-5)
    assert len(runs) == len(given)


def test_a_tensor_that_the_graph_keeps_is_read(runs):
    table = torch.arange(4.0, device="neuron")
    assert exactly(lambda x: x + table, torch.ones(4)).tolist() == [1, 2, 3, 4]
    assert len(runs) == 1


def test_each_size_has_a_program_of_its_own(runs):
    function = torch.compile(lambda x: x.exp() + 1, backend="neuron", dynamic=True)
    with numerics("exact"):
        for rows in (3, 4, 3):
            x = torch.randn(rows, 5)
            assert torch.allclose(function(x.to("neuron")).cpu(), x.exp() + 1, atol=1e-5)
    assert len(runs) == 3


def test_casts_that_flags_ask_for_are_in_the_values(runs):
    torch.manual_seed(0)
    x, w = torch.randn(4, 100), torch.randn(100, 6)
    options = {"auto-cast": "matmult", "auto-cast-type": "bf16"}
    ours = torch.compile(torch.matmul, backend="neuron", options=options)
    with numerics("exact"):
        found = ours(x.to("neuron"), w.to("neuron")).cpu()
    short = x.bfloat16().float() @ w.bfloat16().float()
    assert torch.allclose(found, short, atol=1e-4)
    assert not torch.allclose(found, x @ w, atol=1e-4)
    assert len(runs) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.dropout(x, 0.5),
        lambda x: torch.linalg.qr(x)[1],
        lambda x: x[:0].sum() + x,
    ],
    ids=["random numbers", "an operator of the host", "nothing"],
)
def test_what_is_no_program_runs_operator_by_operator(function, runs):
    x = torch.randn(6, 6)
    torch.manual_seed(0)
    wanted = function(x.to("neuron")).cpu()
    ours = torch.compile(function, backend="neuron", dynamic=False)
    torch.manual_seed(0)
    with numerics("exact"):
        found = ours(x.to("neuron")).cpu()
    assert torch.allclose(found, wanted, atol=1e-5)
    assert not runs


def test_what_does_not_fit_as_one_program_says_so_once():
    program_error = compiled_graph.OutOfMemory("no room", fix="none")

    def refused(*_, **__):
        raise program_error

    function = torch.compile(lambda x: x + 1, backend="neuron", dynamic=False)
    x = torch.ones(3).to("neuron")
    with pytest.MonkeyPatch.context() as patch, numerics("exact"):
        patch.setattr(program, "evaluate_program", refused)
        with pytest.warns(CompilerWarning, match="forward-0 is computed operator by operator: no"):
            assert function(x).tolist() == [2, 2, 2]
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompilerWarning)
            assert function(x).tolist() == [2, 2, 2]


@pytest.mark.slow_cases("attention")
@pytest.mark.parametrize("name", ["attention", "layer norm"])
def test_numerics_may_change_between_the_passes(name):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, x = make().bfloat16().to("neuron"), torch.randn(shape, dtype=torch.bfloat16)
    loss = torch.compile(model, backend="neuron", dynamic=False)(x.to("neuron")).square().mean()
    with numerics("exact"):
        loss.backward()
    found = [parameter.grad.cpu().float() for parameter in model.parameters()]
    model.zero_grad()
    model(x.to("neuron")).square().mean().backward()
    for one, parameter in zip(found, model.parameters(), strict=True):
        wanted = parameter.grad.cpu().float()
        assert (one - wanted).abs().max() <= 0.05 * wanted.abs().max().clamp(min=1e-2)


def test_what_is_made_empty_may_be_filled_later(runs):
    def function(x):
        made = torch.empty(4, 130, device=x.device)
        made[:] = x
        return made * 2

    x = torch.randn(4, 130)
    assert torch.allclose(exactly(function, x), x * 2)
    assert len(runs) == 1


def test_the_default_device_may_be_neuron(runs):
    x = torch.randn(4, 130)
    torch.set_default_device("neuron")
    try:
        doubled = exactly(lambda x: x * 2, x)
    finally:
        torch.set_default_device(None)
    assert torch.allclose(doubled, x * 2)
    assert len(runs) == 1


def test_a_graph_with_a_result_that_its_program_does_not_compute_runs_operator_by_operator(
    monkeypatch, runs
):
    x, with_values = torch.linspace(-1, 1, 12).reshape(3, 4), DECOMPOSITIONS["sin"]
    model = torch.compile(lambda x: (x.sin(), x + 1), backend="neuron", dynamic=False)
    monkeypatch.setitem(DECOMPOSITIONS, "sin", lambda _b, _x: None)
    model(x.to("neuron"))
    monkeypatch.setitem(DECOMPOSITIONS, "sin", with_values)
    with numerics("exact") as on_host:
        sines, sums = model(x.to("neuron"))
    assert not on_host
    assert not runs
    torch.testing.assert_close(sines.cpu(), x.sin())
    torch.testing.assert_close(sums.cpu(), x + 1)
