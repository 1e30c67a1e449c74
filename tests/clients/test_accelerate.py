"""Released accelerate finds the device and trains on it."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
accelerate = pytest.importorskip("accelerate", reason="make clients installs accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_the_device_is_found_and_a_step_is_the_cpus(precision):
    losses = {}
    for on_cpu in (False, True):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=on_cpu, mixed_precision=precision)
        assert accelerator.device.type == ("cpu" if on_cpu else "neuron")
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loader = torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=8)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        losses[on_cpu] = []
        for batch in loader:
            optimizer.zero_grad()
            loss = model(batch).pow(2).mean()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses[on_cpu].append(loss.item())
    assert losses[False] == pytest.approx(losses[True], rel=2e-2 if precision == "bf16" else 1e-4)
