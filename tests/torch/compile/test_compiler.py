from collections import defaultdict

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.device import compiled_graph, device_core, hbm_use
from trnsim.device.hbm import device_memory
from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording
from trnsim.torch.compile import compiler

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # A recording hooks into all modules, which PyTorch's compiler remarks on.
    pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`"),
]


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])


def block():
    torch.manual_seed(0)
    return nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))


def compiled(model):
    return torch.compile(model, backend="neuron", dynamic=False)


def losses(model, device):
    torch.manual_seed(1)
    x = torch.randn(16, 32).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.slow
def test_a_compiled_model_trains_as_on_the_cpu():
    found = losses(compiled(block().to("neuron")), "neuron")
    assert found == pytest.approx(losses(block(), "cpu"), rel=1e-4)
    assert [one.name for one in compiled_graph.compiled_graphs()] == ["forward-0", "backward-0"]
    assert all(not one.missing for one in compiled_graph.compiled_graphs())


def test_a_compiled_graph_is_loaded_where_it_runs(monkeypatch):
    monkeypatch.setattr(hbm_use, "_loaded_programs", defaultdict(dict))

    def scaled(x):
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0]).to(x.device)
        return (x @ x + scale).relu() @ x

    x = torch.ones(4, 4, device="neuron")
    fast = compiled(scaled)
    fast(x)
    fast(x)
    (one,) = compiled_graph.compiled_graphs()
    assert one.constant_bytes == 4 * 4
    assert one.scratchpad_bytes == one.plan.arena.nbytes > 0
    used = hbm_use.by_category(0, 2)
    assert (used["constants"], used["model_shared_scratchpad"]) == (4 * 4, 64 << 20)
    assert used["tensors"] == device_memory(0).live_bytes
    assert [(one.name, one.constant_bytes) for one in hbm_use.loaded_models(0, 0)] == [
        ("forward-0", 16)
    ]


@pytest.mark.slow
def test_a_compiled_step_has_one_time_a_graph_and_fewer_launches():
    model, x = block().to("neuron"), torch.randn(16, 32).to("neuron")
    with recording() as eager:
        model(x).pow(2).mean().backward()
    fast = compiled(model)
    fast(x).pow(2).mean().backward()
    with recording() as found:
        fast(x).pow(2).mean().backward()
    names = [event.call.name for event in found.events]
    assert names.count("forward-0") == names.count("backward-0") == 1
    times = [step_time(one, "trn2") for one in (eager, found)]
    assert not times[1].missing
    assert times[1].launch_s < times[0].launch_s
    assert times[1].flop == pytest.approx(times[0].flop)


@pytest.mark.slow
def test_a_new_shape_is_compiled_anew_and_the_report_says_why():
    model = compiled(block().to("neuron"))
    for rows in (16, 8):
        model(torch.randn(rows, 32).to("neuron"))
    assert len(compiled_graph.compiled_graphs()) == 2
    assert "float32[16, 32] in forward-0 and is float32[8, 32] here" in compiler.report()
    assert "the first of its kind" in compiler.report()


@pytest.mark.slow
def test_a_graph_of_symbolic_sizes_has_a_time_for_each_size():
    model = torch.compile(block().to("neuron"), backend="neuron", dynamic=True)
    times = []
    for rows in (16, 128, 1024):
        with recording() as found:
            model(torch.randn(rows, 32).to("neuron"))
        times += [step_time(found, "trn2").device_time_s]
    assert len(compiled_graph.compiled_graphs()) == 3
    assert times == sorted(times)
    assert times[0] < times[-1] / 2
    assert "float32[128, 32] in forward-1 and is float32[1024, 32] here" in compiler.report()
    assert "buckets" in compiler.report()


def test_a_graphs_memory_is_planned():
    model = compiled(block().to("neuron"))
    x = torch.randn(16, 32).to("neuron")
    model(x).sum().backward()
    forward, backward = compiled_graph.compiled_graphs()
    weights = sum(parameter.nbytes for parameter in model.parameters())
    assert forward.plan.input_bytes == weights + x.nbytes
    assert forward.plan.peak_bytes > forward.plan.input_bytes
    assert "KiB at most" in compiler.report()
    assert backward.plan.fresh_bytes > 0
    assert backward.plan.arena.nbytes >= backward.plan.arena.least_bytes > 0
    assert f"  arena    {backward.plan.arena_text()}" in compiler.report()


def test_a_graph_that_has_no_room_is_refused_with_what_it_holds(monkeypatch):
    model = compiled(block().to("neuron"))
    x = torch.randn(4096, 32).to("neuron")
    memory = device_memory(0)
    monkeypatch.setattr(memory, "capacity_bytes", memory.live_bytes + (1 << 20))
    with pytest.raises(torch.OutOfMemoryError) as caught:
        model(x)
    message = str(caught.value)
    assert "forward-0 needs" in message
    assert "tensor<4096x64xfloat32>" in message
    assert "a smaller batch" in message
    monkeypatch.undo()
    assert model(x).shape == (4096, 32)


def test_a_recording_does_not_look_into_what_is_compiled():
    model = block().to("neuron")
    with recording() as found:
        compiled(model)(torch.randn(16, 32).to("neuron"))
        model(torch.randn(16, 32).to("neuron"))
    names = [(event.call.operation, event.module) for event in found.events]
    assert names[0] == ("forward-0", "OptimizedModule")
    assert ("addmm", "1") in names


def test_an_operator_without_a_lowering_is_named_and_the_rest_is_timed():
    function = torch.compile(
        lambda x: torch.special.bessel_j0(x * 2) + 1, backend="neuron", dynamic=False
    )
    x = torch.randn(8, 8)
    with recording() as found:
        assert torch.equal(function(x.to("neuron")).cpu(), torch.special.bessel_j0(x * 2) + 1)
    assert "on host  aten::special_bessel_j0" in compiler.report()
    time = step_time(found, "trn2")
    assert sum(time.missing.values()) == 1
    assert time.device_time_s > 0


def test_a_graph_for_other_cores_than_a_device_has_is_refused():
    has = device_core.device_core().physical_cores
    other = 3 - has
    model = torch.compile(
        nn.Linear(4, 4).to("neuron"), backend="neuron", options={"logical_nc_config": other}
    )
    with pytest.raises(Exception, match=f"--logical-nc-config={other} on trn2; legal: {has}"):
        model(torch.ones(2, 4, device="neuron"))
    same = torch.compile(
        nn.Linear(4, 4).to("neuron"), backend="neuron", options={"logical_nc_config": has}
    )
    assert same(torch.ones(2, 4, device="neuron")).shape == (2, 4)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like])
def test_random_numbers_like_a_tensor_are_lowered(draw):
    x = torch.ones(4, 8, device="neuron")
    assert compiled(lambda x: x + draw(x))(x).std() > 0
    assert not any(graph.missing for graph in compiled_graph.compiled_graphs())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_scaled_products_and_quotients_in_place_are_lowered(dtype, mode):
    def step(x, y):
        products = x.clone().addcmul_(x, y, value=-1.5)
        return products, x.clone().addcdiv_(x, y, value=0.25)

    x, y = torch.linspace(-3, 3, 24).reshape(4, 6).to(dtype), torch.linspace(1, 2, 6).to(dtype)
    with numerics(mode) as on_host:
        found = compiled(step)(x.to("neuron"), y.to("neuron"))
    assert not on_host
    assert not any(graph.missing for graph in compiled_graph.compiled_graphs())
    for mine, theirs in zip(found, step(x, y), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("kind", ["fast", "exact"])
def test_a_branch_with_a_constant_has_values_and_no_time(kind):
    def choose(x):
        def shifted(x):
            return x + torch.tensor([1.0, 2, 3], device=x.device)

        return torch.cond(x.sum() > 0, shifted, torch.sin, (x,))

    run = compiled(choose)
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        with numerics(kind):
            found = run(x.to("neuron"))
        torch.testing.assert_close(found.cpu(), choose(x))
    (graph,) = compiled_graph.compiled_graphs()
    assert graph.missing == ("cond: a branch reads a constant tensor; give it as an operand",)
