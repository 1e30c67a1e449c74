"""PyTorch's backend "openxla", which calls `torch_xla.core.dynamo_bridge`."""

import pytest


def losses(device, backend):
    import torch
    import torch.nn.functional as F  # noqa: N812  its usual name

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x, classes = torch.randn(4, 4).to(device), torch.arange(4).to(device) % 2
    model = model.to(device)
    run = torch.compile(model, backend=backend) if backend else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), classes)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    with torch.no_grad():
        return [*values, run(x[:3]).sum().item()]


@pytest.mark.slow
def test_openxla_compiles_as_the_backend_neuron_does():
    import torch_xla

    from trnsim.device import compiled_graph

    found = losses(torch_xla.device(), "openxla")
    assert found == pytest.approx(losses("cpu", ""), rel=1e-4)
    graphs = compiled_graph.compiled_graphs()
    assert len(graphs) == 3, "forward, backward, and another shape without gradients"
    assert not any(graph.missing for graph in graphs)
