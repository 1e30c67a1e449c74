"""The lists of autocast of torch_xla; tests/xla/oracle compares dtypes with the real package."""

import torch

from trnsim.torch import pytorch
from trnsim.torch.api import autocast
from trnsim.xla import autocast_lists


def test_every_operator_of_the_lists_is_one_of_pytorch_and_in_one_list():
    names = [
        name
        for names in (
            autocast_lists.LOW_PRECISION,
            autocast_lists.FLOAT32,
            autocast_lists.WIDEST,
        )
        for name in names.split()
    ]
    assert len(names) == len({*names})
    assert [name for name in names if pytorch.overload(f"aten::{name}") is None] == []


def test_the_lists_hold_from_the_import_on():
    tensor = torch.ones(2, 2, device="neuron", dtype=torch.bfloat16)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert tensor.exp().dtype is torch.float32
        assert tensor.float().relu().dtype is torch.float32
    import torch_xla

    with torch.autocast("xla"):
        assert tensor.exp().dtype is torch.bfloat16
        assert tensor.float().relu().dtype is torch.bfloat16
        assert torch.cat([tensor, tensor.float()]).dtype is torch.float32
        assert (tensor.float() @ tensor.float()).dtype is torch.bfloat16
        with torch.autocast("xla", enabled=False):
            assert (tensor.float() @ tensor.float()).dtype is torch.float32
    assert autocast.policies["mm"] is autocast.low_precision_dtype
    assert "exp" not in autocast.policies
