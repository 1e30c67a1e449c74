import warnings

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device import compiled_graph
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording
from trnsim.torch.compile.refused import CompilerWarning

torch.manual_seed(0)
MANY = [torch.randn(5, 7), torch.randn(300), torch.randn(3)]


def test_operators_on_lists(agree):
    agree(lambda x: torch._foreach_mul(x, 0.5), MANY)
    agree(lambda x: torch._foreach_add(x, x, alpha=2), MANY)
    agree(lambda x: torch._foreach_addcmul(x, x, x, 0.5), MANY)
    agree(lambda x: torch._foreach_addcdiv(x, x, x, [1.0, 2.0, 3.0]), MANY)
    agree(torch._foreach_norm, MANY, tolerance=2.0**-16)
    agree(lambda x: torch._foreach_pow(0.9, torch._foreach_abs(x)), MANY, tolerance=2.0**-12)


def test_lists_in_place(agree):
    def halve(tensors):
        copies = [tensor.clone() for tensor in tensors]
        torch._foreach_mul_(copies, 0.5)
        return copies

    agree(halve, MANY)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("AdamW", {"fused": True}), ("Adam", {"fused": True, "weight_decay": 0.1}), ("AdamW", {}),
     ("SGD", {"fused": True, "momentum": 0.9, "weight_decay": 0.1}), ("SGD", {"foreach": True})],
)  # fmt: skip
def test_every_operator_of_an_optimizer_step_has_a_time(kind, options):
    model = torch.nn.Linear(64, 32).to("neuron")
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-3, **options)
    with recording() as found:
        model(torch.randn(8, 64).to("neuron")).sum().backward()
        optimizer.step()
    time = step_time(found, "trn2")
    assert not time.missing
    assert {name: taken for name, _, taken in time.by("phase")}["optimizer"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["AdamW", "NAdam", "Rprop"])
def test_a_compiled_optimizer_step_is_a_program_with_its_values(kind, monkeypatch):
    monkeypatch.setattr(compiled_graph, "_graphs", [])
    torch.compiler.reset()

    def parameters(device):
        values = [tensor.detach().to(device).requires_grad_() for tensor in MANY]
        for value in values:
            value.grad = value.detach() * 2
        return values

    ours, theirs = parameters("neuron"), parameters("cpu")
    step = torch.compile(getattr(torch.optim, kind)(ours, lr=1e-2).step, backend="neuron")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        step()
    assert not [one for one in found if issubclass(one.category, CompilerWarning)]
    getattr(torch.optim, kind)(theirs, lr=1e-2).step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.cpu(), other)
    assert compiled_graph.compiled_graphs()


def fused_cost(kind, steps=1, **options):
    """Instructions and HBM bytes of the last of some fused steps of one parameter."""
    parameter = torch.nn.Parameter(torch.ones(160, 5).to("neuron"))
    optimizer = getattr(torch.optim, kind)([parameter], fused=True, **options)
    for _ in range(steps):
        parameter.grad = torch.ones_like(parameter)
        with recording() as found:
            optimizer.step()
    time = step_time(found, "trn2")
    assert not time.missing
    kernels = [k for call, t in time.times.items() if "fused" in call.name for k in t.kernels]
    return sum(k.instructions for k in kernels), sum(k.hbm_bytes for k in kernels)


TENSOR_BYTES = 160 * 5 * 4


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("kind", "given", "changed", "tensors_moved"),
    [
        ("Adam", {}, {"amsgrad": True}, 2),
        ("AdamW", {}, {"amsgrad": True}, 2),
        ("Adam", {}, {"maximize": True}, 0),
        ("AdamW", {}, {"maximize": True}, 0),
        ("Adam", {}, {"weight_decay": 0.1}, 0),
        ("AdamW", {"weight_decay": 0}, {"weight_decay": 0.1}, 0),
        ("SGD", {}, {"momentum": 0.9}, 2),
        ("SGD", {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.1}, 0),
        ("SGD", {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, 0),
        ("SGD", {}, {"maximize": True}, 0),
        ("SGD", {}, {"weight_decay": 0.1}, 0),
        ("Adagrad", {}, {"maximize": True}, 0),
        ("Adagrad", {}, {"weight_decay": 0.1}, 0),
    ],
)
def test_each_option_of_a_fused_step_has_its_instructions(kind, given, changed, tensors_moved):
    plain, optional = (fused_cost(kind, steps=2, **options) for options in (given, changed))
    assert optional[0] > plain[0]
    assert optional[1] == plain[1] + tensors_moved * TENSOR_BYTES


def test_the_first_momentum_is_a_copy_of_the_gradient():
    first, second = (fused_cost("SGD", steps=n, momentum=0.9) for n in (1, 2))
    assert second[1] == first[1] + TENSOR_BYTES  # the old momentum is read
    assert first[1] == fused_cost("SGD")[1] + TENSOR_BYTES


def test_numbers_of_a_fused_step_change_no_time():
    numbers = {"lr": 0.5, "betas": (0.5, 0.0), "eps": 1.0}
    assert fused_cost("Adam", **numbers) == fused_cost("Adam")
    assert fused_cost("Adagrad", lr_decay=0.5) == fused_cost("Adagrad")


def test_a_rate_on_the_device_is_read():
    rate = torch.tensor(1e-3).to("neuron")
    assert fused_cost("AdamW", lr=rate)[1] > fused_cost("AdamW")[1]


def test_a_scaled_gradient_is_read_and_written_and_a_skipped_step_is_refused():
    def step(**options):
        tensors = [[torch.ones(160, 5).to("neuron")] for _ in range(4)]
        count = [torch.ones(()).to("neuron")]
        with recording() as found:
            torch._fused_adam_(
                *tensors, [], count, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8,
                amsgrad=False, maximize=False, **options,
            )  # fmt: skip
        return step_time(found, "trn2")

    scale, inf = torch.ones(1).to("neuron"), torch.zeros(1).to("neuron")
    plain, scaled = (
        sum(k.hbm_bytes for t in found.times.values() for k in t.kernels)
        for found in (step(), step(grad_scale=scale))
    )
    assert scaled == plain + TENSOR_BYTES + 4
    assert list(step(grad_scale=scale, found_inf=inf).missing) == [
        "aten::_fused_adam_ has no lowering for a step that found_inf may skip"
    ]
