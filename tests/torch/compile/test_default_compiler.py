import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.device import compiled_graph
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`"),
]


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 1))


@pytest.mark.slow_but("{}")
@pytest.mark.parametrize(
    "options", [{}, {"backend": "inductor"}, {"mode": "max-autotune"}, {"fullgraph": True}], ids=str
)
def test_a_model_on_the_device_is_compiled_for_it(options):
    x = torch.randn(5, 6)
    plain = model()
    plain(x).sum().backward()
    moved = model().to("neuron")
    compiled = torch.compile(moved, **options)
    assert compiled(x.to("neuron")).device.type == "neuron"
    with recording() as found:
        compiled(x.to("neuron")).sum().backward()
    assert [one.name for one in compiled_graph.compiled_graphs()] == ["forward-0", "backward-0"]
    assert any(event.call.name.startswith("forward-") for event in found.events)
    assert not step_time(found, "trn2").missing
    for mine, theirs in zip(moved.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad)


def test_a_graph_that_makes_its_tensors_on_the_device_is_compiled_for_it():
    found = torch.compile(lambda: torch.arange(4, device="neuron") * 2)()
    assert (found.device.type, found.tolist()) == ("neuron", [0, 2, 4, 6])
    assert [one.name for one in compiled_graph.compiled_graphs()] == ["forward-0"]


def test_a_model_elsewhere_is_compiled_by_inductor_in_the_same_process(monkeypatch):
    """Inductor itself is not run: it needs a compiler of C++."""
    seen = []

    def compile_fx(module, inputs, **options):
        seen.append((len(inputs), options["config_patches"]))
        return module.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    x = torch.randn(5, 6)
    for place in ("cpu", "neuron", "cpu"):
        torch._dynamo.reset()
        mine = model().to(place)
        torch.compile(mine, options={"max_autotune": True})(x.to(place))
    assert len(seen) == 2
    assert all(patches == {"max_autotune": True} for _, patches in seen)
    assert len(compiled_graph.compiled_graphs()) == 1


@pytest.mark.slow
def test_the_tracer_is_not_loaded_with_the_device():
    code = (
        "import torch, sys; torch.ones(1, device='neuron'); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
