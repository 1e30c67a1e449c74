import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.torch import compiler
from trnsim.torch.device_time import step_time
from trnsim.torch.recording import recording

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # A recording hooks into all modules, which PyTorch's compiler remarks on.
    pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`"),
]


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiler, "_graphs", [])
    monkeypatch.setattr(compiler, "_operators", {})


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


def test_a_compiled_model_trains_as_on_the_cpu():
    found = losses(compiled(block().to("neuron")), "neuron")
    assert found == pytest.approx(losses(block(), "cpu"), rel=1e-4)
    assert [one.name for one in compiler.graphs()] == ["forward-0", "backward-0"]
    assert all(not one.missing for one in compiler.graphs())


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
    assert times[1].flop == times[0].flop


def test_a_new_shape_is_compiled_anew_and_the_report_says_why():
    model = compiled(block().to("neuron"))
    for rows in (16, 8):
        model(torch.randn(rows, 32).to("neuron"))
    assert len(compiler.graphs()) == 2
    assert "float32[16, 32] in forward-0 and is float32[8, 32] here" in compiler.report()
    assert "the first of its kind" in compiler.report()


def test_an_operator_without_a_lowering_is_named_and_the_rest_is_timed():
    function = torch.compile(lambda x: torch.lgamma(x * 2) + 1, backend="neuron", dynamic=False)
    x = torch.randn(8, 8)
    with recording() as found:
        assert torch.equal(function(x.to("neuron")).cpu(), torch.lgamma(x * 2) + 1)
    assert "on host  aten::lgamma" in compiler.report()
    time = step_time(found, "trn2")
    assert sum(time.missing.values()) == 1
    assert time.device_time_s > 0
