"""Autocast and optimizers of torch_xla.amp."""

import pytest
import torch


def test_autocast_is_in_bfloat16_unless_another_dtype_is_given():
    import torch_xla
    from torch_xla.amp import autocast

    layer, inputs = torch.nn.Linear(2, 2).to("xla"), torch.ones(1, 2, device="xla")
    with autocast(torch_xla.device()):
        assert layer(inputs).dtype is torch.bfloat16
    with autocast("xla", enabled=False):
        assert layer(inputs).dtype is torch.float32


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_optimizers_step_as_pytorchs(name):
    from torch_xla.amp import syncfree

    weights = []
    for module in (syncfree, torch.optim):
        parameter = torch.nn.Parameter(torch.ones(2, device="xla"))
        optimizer = getattr(module, name)([parameter], lr=0.1)
        parameter.square().sum().backward()
        optimizer.step()
        weights.append(parameter.detach().cpu())
    assert torch.equal(*weights)


def test_the_scaler_of_gradients_is_refused_by_name():
    with pytest.raises(ImportError, match=r"(?s)GradScaler: it is of float16.*fix: bfloat16"):
        from torch_xla.amp import GradScaler
