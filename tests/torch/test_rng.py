import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")


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


def test_a_generator_of_a_core_that_does_not_exist_is_refused():
    with pytest.raises(RuntimeError, match="neuron:7 does not exist"):
        torch.Generator(device="neuron:7")
