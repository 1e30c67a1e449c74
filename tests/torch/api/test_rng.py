import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from groups import together

from trnsim.torch.device_errors import BadState


def draw():
    return torch.rand(4, device="neuron")


def test_a_seed_repeats_the_numbers():
    torch.manual_seed(3)
    first = draw()
    torch.manual_seed(3)
    assert torch.equal(first, draw())
    torch.neuron.manual_seed(3)
    assert torch.equal(first, draw())
    assert torch.neuron.initial_seed() == 3


def test_a_state_repeats_the_numbers():
    state, states = torch.neuron.get_rng_state(), torch.neuron.get_rng_state_all()
    first = draw()
    torch.neuron.set_rng_state(state)
    assert torch.equal(first, draw())
    torch.neuron.set_rng_state_all(states)
    assert torch.equal(first, draw())


@pytest.mark.parametrize("count", [0, 3, 5])
def test_there_is_a_state_for_each_core(count):
    states = torch.neuron.get_rng_state_all()
    with pytest.raises(BadState, match=f"states of {count} cores; this process has 4"):
        torch.neuron.set_rng_state_all([states[0]] * count)


@pytest.mark.parametrize("state", [5, None, [1]])
def test_what_is_no_state_is_refused_by_name(state):
    for restore in (torch.neuron.set_rng_state, torch.Generator("neuron").set_state):
        with pytest.raises(BadState, match="is 16 bytes on the CPU; this is "):
            restore(state)
    with pytest.raises(BadState, match="is 16 bytes on the CPU; this is "):
        torch.neuron.set_rng_state_all([state] * 4)


def test_what_is_no_list_of_states_is_refused_by_name():
    with pytest.raises(BadState, match="5 is no list of states; legal: a state for each core"):
        torch.neuron.set_rng_state_all(5)


def test_a_state_may_lie_on_the_device():
    torch.neuron.manual_seed(4)
    state = torch.neuron.get_rng_state()
    first = draw()
    torch.neuron.set_rng_state(state.to("neuron"))
    assert torch.equal(first, draw())


def test_the_cpus_numbers_are_apart():
    torch.manual_seed(3)
    first = torch.rand(2)
    torch.manual_seed(3)
    draw()
    torch.native_dropout(torch.ones(4, device="neuron"), 0.5, True)
    assert torch.equal(first, torch.rand(2))


def test_a_fork_leaves_the_state():
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        first = draw()
    assert torch.equal(first, draw())


def test_fresh_seeds_differ():
    torch.neuron.seed()
    first = draw()
    torch.neuron.seed_all()
    assert not torch.equal(first, draw())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randperm(5, device="neuron"),
        lambda: torch.randint(0, 5, (3,), device="neuron"),
        lambda: torch.multinomial(torch.ones(4, device="neuron"), 2),
        lambda: torch.bernoulli(torch.full((3,), 0.5, device="neuron")),
        lambda: torch.nn.init.xavier_uniform_(torch.empty(3, 3, device="neuron")),
    ],
)
def test_all_sorts_of_random_numbers(make):
    torch.manual_seed(0)
    first = make()
    torch.manual_seed(0)
    assert torch.equal(first, make())
    assert first.device.type == "neuron"


def test_a_generator_of_the_device_draws_for_it():
    mine = torch.Generator(device="neuron").manual_seed(3)
    assert mine.device == torch.device("neuron:0")
    first = torch.randn(4, device="neuron", generator=mine)
    host = torch.Generator().manual_seed(3)
    assert torch.equal(first.cpu(), torch.randn(4, generator=host))
    assert isinstance(mine, torch.Generator)
    assert isinstance(host, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    state = mine.get_state()
    second = torch.rand(4, device="neuron", generator=mine)
    mine.set_state(state)
    assert torch.equal(second, torch.rand(4, device="neuron", generator=mine))


def pickled(generator):
    return pickle.loads(pickle.dumps(generator))  # noqa: S301  of this test


@pytest.mark.parametrize("device", ["cpu", "neuron"])
@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, pickled, lambda one: one.clone_state()],
)
def test_a_copy_of_a_generator_draws_the_same_for_the_same_device(device, copied):
    generator = torch.Generator(device).manual_seed(7)
    torch.rand(3, generator=generator, device=device)
    other = copied(generator)
    assert other.device.type == device
    assert other.initial_seed() == 7
    expected = torch.rand(5, generator=generator, device=device)
    assert torch.equal(torch.rand(5, generator=other, device=device), expected)
    assert torch.equal(other.get_state(), generator.get_state())


def test_a_generator_of_a_core_that_does_not_exist_is_refused():
    with pytest.raises(RuntimeError, match="neuron:7 does not exist"):
        torch.Generator(device="neuron:7")


def sharded_numbers(rank):
    """What DTensor draws: normal numbers, a dropout, weights from meta; and what follows."""
    import torch.distributed as dist  # noqa: PLC0415  imports much
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  likewise
    from torch.distributed.tensor import (  # noqa: PLC0415  likewise
        Replicate,
        Shard,
        ones,
        rand,
        randn,
    )

    mesh = dist.init_device_mesh("neuron", (2,))
    torch.manual_seed(1)
    found = {
        "uneven": randn(5, 3, device_mesh=mesh, placements=[Shard(0)]),
        "power": rand(2048, 1024, device_mesh=mesh, placements=[Shard(0)]),
        "replicated": rand(2, 3, device_mesh=mesh, placements=[Replicate()]),
        "kept": torch.nn.functional.dropout(
            ones(8, 4, device_mesh=mesh, placements=[Shard(0)]), 0.5
        ),
    }
    mine = torch.Generator(device="neuron").manual_seed(4)
    empty = ones(4, 5, device_mesh=mesh, placements=[Shard(0)])
    found["given"] = empty.normal_(generator=mine)
    found["given again"] = empty.clone().normal_(generator=mine)
    with torch.device("meta"):
        layer = torch.nn.Linear(4, 6)
    fully_shard(layer, mesh=mesh)
    layer.to_empty(device="neuron")
    layer.reset_parameters()
    found |= {"weight": layer.weight.detach(), "bias": layer.bias.detach()}
    whole = {name: part.full_tensor().cpu() for name, part in found.items()}
    return whole | {"next": torch.rand(3, device="neuron").cpu(), "rank": rank}


@pytest.mark.slow
def test_a_tensor_over_processes_has_random_numbers_that_all_agree_on():
    first, second = together(sharded_numbers)
    for name in set(first) - {"rank"}:
        assert torch.equal(first[name], second[name]), name
    assert not torch.equal(first["given"], first["given again"])
    for name in ("uneven", "power", "weight", "next", "given"):
        assert len(first[name].unique()) > 0.9 * first[name].numel(), name
    assert not torch.equal(first["power"][:1024], first["power"][1024:])
    assert set(first["kept"].unique().tolist()) == {0, 2}
    assert not torch.equal(first["kept"][:4], first["kept"][4:])
    assert first["weight"].abs().max() <= 0.5
    assert first["uneven"].shape == (5, 3)
