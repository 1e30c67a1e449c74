"""Models whose parameters are spread over processes: saved, resumed, and offloaded to the host."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from groups import apart
from torch import nn

STEPS = 3


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 5))


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def losses_of(model, optimizer, device="neuron"):
    """Losses of some steps on this process's rows."""
    inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(dist.get_rank()))
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(inputs.to(device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def data_parallel(rank):
    """What the CPU finds, with the whole model in each process."""
    del rank
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(network(0))
    return losses_of(model, optimizer_of(model), "cpu")


def sharded(seed, device="neuron", **options):
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  imports much

    model = network(seed).to(device)
    mesh = dist.init_device_mesh("neuron", (2,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, **options)
    return model, optimizer_of(model)


class Resume:
    """Losses after a checkpoint: of the model that was saved, and of another that loaded it."""

    def __init__(self, folder, way):
        self.folder = folder
        self.way = way

    def __call__(self, rank):
        del rank
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415  imports much
        from torch.distributed.checkpoint.state_dict import (  # noqa: PLC0415  likewise
            get_state_dict,
            set_state_dict,
        )

        model, optimizer = sharded(0)
        first = losses_of(model, optimizer)
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        if self.way == "async":
            dcp.async_save(state, checkpoint_id=self.folder).result()
        else:
            dcp.save(state, checkpoint_id=self.folder)
        other, its_optimizer = sharded(5)
        weights, moments = get_state_dict(other, its_optimizer)
        state = {"model": weights, "optimizer": moments}
        dcp.load(state, checkpoint_id=self.folder)
        set_state_dict(
            other, its_optimizer, model_state_dict=weights, optim_state_dict=state["optimizer"]
        )
        return first, losses_of(model, optimizer), losses_of(other, its_optimizer)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["save", "async"])
def test_a_sharded_model_goes_on_from_its_checkpoint(tmp_path, way):
    expected = apart(data_parallel)
    for rank, (first, after, resumed) in enumerate(apart(Resume(str(tmp_path), way))):
        assert first == pytest.approx(expected[rank], rel=1e-4)
        assert resumed == after
        assert after[0] < first[0]


class Offloaded:
    """Losses where the parameters live on the host, in pinned memory or not."""

    def __init__(self, is_pinned):
        self.is_pinned = is_pinned

    def __call__(self, rank):
        del rank
        from torch.distributed.fsdp import CPUOffloadPolicy  # noqa: PLC0415  imports much

        policy = CPUOffloadPolicy(pin_memory=self.is_pinned)
        model, optimizer = sharded(0, "cpu", offload_policy=policy)
        found = losses_of(model, optimizer)
        assert {p.device.type for p in model.parameters()} == {"cpu"}
        return found


@pytest.mark.slow
@pytest.mark.parametrize("is_pinned", [True, False])
def test_parameters_on_the_host_train(is_pinned):
    for mine, expected in zip(apart(Offloaded(is_pinned)), apart(data_parallel), strict=True):
        assert mine == pytest.approx(expected, rel=1e-4)


FSDP1 = [
    {},
    {"use_orig_params": True},
    {"sharding_strategy": "SHARD_GRAD_OP"},
    {"cpu_offload": True},
    {"limit_all_gathers": False},
]


def in_flat_parameters(rank):
    """Losses of models that FSDP's first form spreads, one for each of its options."""
    del rank
    from torch.distributed import fsdp  # noqa: PLC0415  imports much

    dist.init_process_group()
    found = []
    for given in FSDP1:
        options = dict(given)
        if "sharding_strategy" in options:
            options["sharding_strategy"] = fsdp.ShardingStrategy[options["sharding_strategy"]]
        if "cpu_offload" in options:
            options["cpu_offload"] = fsdp.CPUOffload(offload_params=True)
        device = torch.device("neuron", 0)
        model = fsdp.FullyShardedDataParallel(network(0), device_id=device, **options)
        found.append(losses_of(model, optimizer_of(model)))
    return found


@pytest.mark.slow
def test_models_in_flat_parameters_train_as_the_cpu_does():
    for found, expected in zip(apart(in_flat_parameters), apart(data_parallel), strict=True):
        for options, mine in zip(FSDP1, found, strict=True):
            assert mine == pytest.approx(expected, rel=1e-4), options


SHAPE = (2, 4, 16, 8)  # batch, heads, places, width


def attention_data():
    own = torch.Generator().manual_seed(0)
    return [torch.randn(SHAPE, generator=own) for _ in range(3)]


def mask_of(kind):
    if kind == "bool":
        return torch.ones(16, 16).tril().bool()
    return torch.linspace(-1, 1, 256).view(1, 1, 16, 16) if kind == "bias" else None


def attended(tensors, **options):
    """The result and the gradients of attention, for the sum of squares."""
    tensors = [t.detach().requires_grad_() for t in tensors]
    out = nn.functional.scaled_dot_product_attention(*tensors, **options)
    out.pow(2).sum().backward()
    return [out.detach(), *(t.grad for t in tensors)]


CASES = [
    (where, is_causal, mask)
    for where in ("batch", "heads", "all")
    for is_causal, mask in ((False, None), (True, None), (False, "bool"), (False, "bias"))
]


def spread_attention(rank):
    del rank
    from torch.distributed.tensor import (  # noqa: PLC0415  imports much
        Replicate,
        Shard,
        distribute_tensor,
    )

    dist.init_process_group()
    mesh = dist.init_device_mesh("neuron", (2,))
    placements = {"batch": Shard(0), "heads": Shard(1), "all": Replicate()}
    found = []
    for where, is_causal, kind in CASES:
        mask = mask_of(kind)
        if mask is not None:
            mask = distribute_tensor(mask.to("neuron"), mesh, [Replicate()])
        parts = [
            distribute_tensor(t.to("neuron"), mesh, [placements[where]]) for t in attention_data()
        ]
        answer = attended(parts, attn_mask=mask, is_causal=is_causal)
        assert all(t.device.type == "neuron" for t in answer)
        found.append([t.full_tensor().cpu() for t in answer])
    return found


@pytest.mark.slow
def test_attention_of_tensors_over_processes_is_that_of_the_whole():
    for found in apart(spread_attention):
        for (_, is_causal, kind), answer in zip(CASES, found, strict=True):
            expected = attended(attention_data(), attn_mask=mask_of(kind), is_causal=is_causal)
            for mine, whole in zip(answer, expected, strict=True):
                torch.testing.assert_close(mine, whole, rtol=1e-4, atol=1e-5)


def long_sequences(rank):
    del rank
    from torch.distributed.tensor.experimental import (  # noqa: PLC0415  imports much
        context_parallel,
    )
    from torch.distributed.tensor.experimental._attention import (  # noqa: PLC0415  likewise
        context_parallel_unshard,
    )

    dist.init_process_group()
    mesh = dist.init_device_mesh("neuron", (2,))
    buffers = [t.to("neuron") for t in attention_data()]
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2, 2, 2]):
        assert buffers[0].shape[2] == SHAPE[2] // 2
        answer = attended(buffers, is_causal=True)
        return [t.cpu() for t in context_parallel_unshard(mesh, answer, [2] * 4)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_attention_of_a_sequence_over_processes_is_that_of_the_whole():
    expected = attended(attention_data(), is_causal=True)
    for found in apart(long_sequences):
        for mine, whole in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, whole, rtol=1e-4, atol=1e-5)
