import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.api import rng, rng_state
from trnsim.torch.device_errors import BadState

BLOCK = 624
SIZES = [0, 1, 15, 16, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK + 1, 10**5]


def made(seed=5):
    return torch.Generator(device="neuron").manual_seed(seed)


def numbers(generator):
    return torch.rand(9, device="neuron", generator=generator)


# Each takes another number of words for an element: one, two, a pair for two, one for all.
DRAWS = {
    "uniform": lambda n, g: torch.rand(n, device="neuron", generator=g),
    "float64": lambda n, g: torch.rand(n, device="neuron", dtype=torch.float64, generator=g),
    "normal": lambda n, g: torch.randn(n, device="neuron", generator=g),
    "integers": lambda n, g: torch.randint(2**40, (n,), device="neuron", generator=g),
    "bernoulli": lambda n, g: torch.empty(n, device="neuron").bernoulli_(0.3, generator=g),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("draw", DRAWS)
def test_sixteen_bytes_say_where_a_generator_stands(draw, size, monkeypatch):
    mine = made()
    for _ in range(3):
        DRAWS[draw](size, mine)
        state = mine.get_state()
        assert (state.dtype, state.shape, state.device.type) == (torch.uint8, (16,), "cpu")
        monkeypatch.setattr(rng, "_host_states", type(rng._host_states)())  # another process
        other = torch.Generator(device="neuron")
        other.set_state(state)
        assert torch.equal(other.get_state(), state)
        assert torch.equal(numbers(other), numbers(mine))


@pytest.mark.parametrize("size", SIZES)
def test_the_words_that_were_drawn_are_counted(size):
    host = torch.Generator().manual_seed(3)
    start = host.get_state()
    torch.empty(size, dtype=torch.int32).random_(generator=host)
    assert rng_state.words_between(start, host.get_state(), torch.Generator()) == size
    later = host.get_state()
    torch.empty(700, dtype=torch.int32).random_(generator=host)
    assert rng_state.words_between(later, host.get_state(), torch.Generator()) == 700


def test_asking_for_the_state_changes_no_number():
    asked, not_asked = made(), made()
    for size in (1, 700, 16):
        asked.get_state()
        mine = torch.randn(size, device="neuron", generator=asked)
        assert torch.equal(mine, torch.randn(size, device="neuron", generator=not_asked))


def test_half_a_pair_of_normals_is_forgotten_where_the_state_is_asked_for():
    mine = made()
    torch.randn(3, device="neuron", generator=mine)
    state = mine.get_state()
    first = torch.randn(3, device="neuron", generator=mine)
    mine.set_state(state)
    assert torch.equal(torch.randn(3, device="neuron", generator=mine), first)


@pytest.mark.parametrize("words", [0, 1, 2**32 - 1, 2**32, 2**47 - 1])
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**64 - 1])
def test_seed_and_words_come_out_as_they_went_in(seed, words):
    state = rng_state.pack_state(seed, words)
    assert rng_state.unpack_state(state) == (seed & 0xFFFFFFFF, words)
    assert state[8:].view(torch.int64).item() >= 0


@pytest.mark.parametrize("added", [4, 2**20, 2**32, 2**47])
def test_what_is_added_to_the_offset_names_another_stream(added):
    mine = made()
    numbers(mine)
    state = mine.get_state()
    expected = numbers(mine)
    moved = state.clone()
    moved[8:].view(torch.int64).add_(added)
    drawn = []
    for _ in range(2):
        mine.set_state(moved)
        drawn.append(numbers(mine))
    assert torch.equal(*drawn)
    assert not set(drawn[0].tolist()) & set(expected.tolist())
    mine.set_state(state)
    assert torch.equal(numbers(mine), expected)


def test_a_seed_of_64_bits_is_remembered():
    mine = made(2**63 + 5)
    mine.set_state(mine.get_state())
    assert mine.initial_seed() == 2**63 + 5


@pytest.mark.parametrize(
    "state", [torch.Generator().get_state(), torch.zeros(16), torch.zeros(15, dtype=torch.uint8)]
)
def test_what_is_no_state_is_refused(state):
    with pytest.raises(BadState, match="the state of a neuron generator is 16 bytes on the CPU"):
        made().set_state(state)


def test_a_state_is_read_while_a_program_is_traced():
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415  takes a second

    numbers(made())
    torch.rand(700, device="neuron")
    with FakeTensorMode():
        state = torch.neuron.get_rng_state()
        torch.neuron.set_rng_state(state)
    assert torch.equal(state, torch.neuron.get_rng_state())
