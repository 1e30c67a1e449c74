"""FSDP of torch_xla: values of data parallelism, with shares of parameters and states."""

import os
import pickle

import pytest
import torch
from torch import nn

OPTIONS = {
    "plain": {},
    "nested": {"nested": True},
    "kept": {"nested": True, "reshard_after_forward": False},
    "root freed": {"disable_reshard_on_root": False},
    "rows": {"shard_param_on_dim_0": True},
    "flat": {"flatten_parameters": True},
    "checkpointed": {"checkpointed": True},
}


class Model(nn.Module):
    """Layers, a scalar, and a matrix that is used twice."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.layers[0].weight

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return (self.tied(x) * self.scale).sum(1)


def data():
    torch.manual_seed(1)
    return torch.randn(3, 2, 3)


def plain_weights(norm=None):
    """The weights of the model that is not shared, after three steps on all data."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for batch in data():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        if norm:
            nn.utils.clip_grad_norm_(model.parameters(), norm)
        optimizer.step()
    return model.state_dict()


def wrapped(*, nested=False, checkpointed=False, **options):
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel, checkpoint_module

    torch.manual_seed(0)
    model = Model()
    if nested:
        # A parameter that two wrappers have would be shared twice.
        model.layers[1] = XlaFullyShardedDataParallel(model.layers[1], **options)
    if checkpointed:
        model = checkpoint_module(model)
    return XlaFullyShardedDataParallel(model, **options)


def shared_state(index, count, norm=None, **options):
    """This rank's state and metadata after three steps on its share of the data."""
    model = wrapped(**options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for batch in data():
        optimizer.zero_grad()
        rows = batch[index : index + 1] if count > 1 else batch
        inputs = rows.to("xla").requires_grad_(options.get("checkpointed", False))
        model(inputs).square().mean().backward()
        if norm:
            model.clip_grad_norm_(norm)
        optimizer.step()
    state = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    return state, model.get_shard_metadata()


def whole_state(states):
    from torch_xla.distributed.fsdp import consolidate_sharded_state_dicts

    return consolidate_sharded_state_dicts([state for state, _ in states], states[0][1])


@pytest.mark.parametrize("name", OPTIONS)
def test_a_lone_rank_trains_to_the_values_without(name):
    import torch_xla

    whole = whole_state([shared_state(0, 1, **OPTIONS[name])])
    torch.testing.assert_close(dict(whole), dict(plain_weights()))


@pytest.mark.slow
def test_two_ranks_train_to_the_values_of_one(tmp_path):
    import torch_xla

    os.environ["NEURONCORE_NUM_DEVICES"] = "2"

    def run(index):
        torch.set_num_threads(1)
        states = {
            (name, norm): shared_state(index, 2, norm, **options)
            for name, options in OPTIONS.items()
            for norm in (None, 0.1)
        }
        (tmp_path / str(index)).write_bytes(pickle.dumps(states))

    torch_xla.launch(run, start_method="fork")
    ranks = [pickle.loads((tmp_path / str(rank)).read_bytes()) for rank in range(2)]  # noqa: S301
    for case in ranks[0]:
        whole = whole_state([states[case] for states in ranks])
        torch.testing.assert_close(dict(whole), dict(plain_weights(case[1])), msg=str(case))
    state, _ = ranks[0]["plain", None]
    assert sorted(value.numel() for value in state.values()) == [128, 128, 128, 128, 128]


def test_parameters_are_shares_and_gathered_ones_are_freed():
    import torch_xla

    model = wrapped(disable_reshard_on_root=False)
    assert {parameter.shape for parameter in model.parameters()} == {(128,)}
    names = [name for name, _ in model.get_original_names_and_sharded_parameters()]
    assert names == [
        "scale", "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"
    ]  # fmt: skip
    result = model(torch.ones(1, 3, device="xla"))
    assert model.module.scale.shape == (1,)
    assert model.layers[1].weight.shape == (1,)
    result.sum().backward()
    assert all(parameter.grad.shape == (128,) for parameter in model.parameters())
    with torch.no_grad():
        assert torch.equal(model(torch.ones(1, 3, device="xla")), result)


def test_gradients_add_up_without_a_reduction():
    import torch_xla

    gradients = []
    for uses_no_sync in (False, True):
        model = wrapped(nested=True)
        rows = data()[0].to("xla")
        if uses_no_sync:
            with model.no_sync():
                model(rows[:1]).sum().backward()
            assert all(parameter.grad is None for parameter in model.parameters())
        else:
            model(rows[:1]).sum().backward()
        model(rows[1:]).sum().backward()
        gradients.append([parameter.grad.cpu() for parameter in model.parameters()])
    torch.testing.assert_close(*gradients)


def test_a_forward_pass_in_low_precision_leaves_shares_in_float32():
    import torch_xla

    model = wrapped(compute_dtype=torch.bfloat16, fp32_reduce_scatter=True)
    result = model(data()[0].to("xla"))
    assert result.dtype is torch.bfloat16
    result.sum().backward()
    for parameter in model.parameters():
        assert parameter.dtype is parameter.grad.dtype is torch.float32


def test_clipping_gives_the_norm_of_all_and_is_of_the_outermost_wrapper():
    import torch_xla

    model = wrapped(nested=True)
    model(data()[0].to("xla")).sum().backward()
    before = torch.cat([parameter.grad.flatten().cpu() for parameter in model.parameters()])
    assert model.clip_grad_norm_(0.1).item() == pytest.approx(before.norm().item())
    after = torch.cat([parameter.grad.flatten().cpu() for parameter in model.parameters()])
    assert after.norm().item() == pytest.approx(0.1, rel=1e-3)
    assert model.clip_grad_norm_(9.0, "inf").item() == pytest.approx(after.abs().max().item())
    with pytest.raises(RuntimeError, match="of a wrapper within another one"):
        model.layers[1].clip_grad_norm_(0.1)


def test_a_module_that_cannot_be_wrapped_is_named():
    import torch_xla
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel

    with pytest.raises(RuntimeError, match="is wrapped already"):
        XlaFullyShardedDataParallel(wrapped())
    for rank, ranks in ((1, 1), (-1, 2)):
        with pytest.raises(
            RuntimeError, match=f"rank {rank} of {ranks} ranks that share; legal: 0 to"
        ):
            XlaFullyShardedDataParallel(
                nn.Linear(2, 2), sharding_rank=rank, sharding_world_size=ranks
            )
    with pytest.raises(RuntimeError, match="ModuleList has no forward"):
        XlaFullyShardedDataParallel(nn.ModuleList([nn.Linear(1, 1)]))
    with pytest.raises(TypeError, match=r"only fp32 parameters.*weight is torch.bfloat16"):
        XlaFullyShardedDataParallel(nn.Linear(1, 1).bfloat16())
    with pytest.raises(RuntimeError, match="without values"):
        XlaFullyShardedDataParallel(nn.Linear(1, 1, device="meta"))
    made = XlaFullyShardedDataParallel(
        nn.Linear(1, 1, device="meta"),
        param_init_fn=lambda module: module.to_empty(device="cpu").requires_grad_(),
    )
    assert made.weight.shape == (1,)


def test_buffers_go_to_the_device_and_an_item_is_that_of_the_module():
    import torch_xla
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel

    model = XlaFullyShardedDataParallel(
        nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)), buffer_dtype=torch.bfloat16
    )
    assert model[0].running_mean.is_xla
    assert model[0].running_mean.dtype is torch.bfloat16
    assert model[0].num_batches_tracked.dtype is torch.int64
    assert model.get_shard_metadata()["buffer_info"]["_fsdp_wrapped_module.0.running_mean"] == {
        "_orig_dtype": torch.float32
    }
