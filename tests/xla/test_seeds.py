"""The seeds of the device, by the numbers that torch_xla 2.9.0 gave."""

import pytest
import torch

from trnsim.torch.api import rng
from trnsim.xla.seeds import SeedRefused, Seeds, StateRefused


def test_a_draw_and_a_step_move_the_numbers_as_measured():
    seeds = Seeds()
    assert seeds.running_number() == 101
    seeds.set(5)
    seeds._draw(0)
    assert seeds.running_number() == 3601076
    seeds.end_step()
    assert seeds.running_number() == 36072346
    seeds.set(2**63 - 1)
    seeds._draw(0)
    assert seeds.running_number() == 9223372036857092806
    seeds.end_step()
    assert seeds.running_number() == 9223372036848775776


def test_each_core_has_its_numbers():
    seeds = Seeds()
    seeds.set(5, "neuron:1")
    assert seeds.running_number("neuron:1") == 5
    assert seeds.running_number("neuron:0") == 101
    seeds.end_step()
    assert seeds.running_number("neuron:1") == 36072346
    assert seeds.running_number(0) == 709230394


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7"])
def test_a_seed_that_has_no_64_bits_is_refused(seed):
    with pytest.raises(SeedRefused, match=rf"set_rng_state\({seed!r}\); legal: 0 to 2\*\*64 - 1"):
        Seeds().set(seed)
    assert issubclass(SeedRefused, TypeError)


def test_a_packed_state_is_both_numbers_and_any_other_tensor_is_refused():
    seeds = Seeds()
    seeds.set(2**64 - 1)
    seeds._draw(0)
    state = seeds.pack()
    running_number = seeds.running_number()
    assert state.dtype is torch.uint8
    seeds.set(7)
    seeds.unpack(state)
    assert seeds.running_number() == running_number
    seeds.end_step()
    assert seeds.running_number() == (7012063 * (2**64 - 1) + 1012031) % 2**64
    for other in (torch.zeros(15, dtype=torch.uint8), torch.zeros(16), 5, None):
        with pytest.raises(StateRefused, match="legal: a tensor of 16 bytes"):
            seeds.unpack(other)


def test_a_draw_takes_its_seed_from_the_running_number_once_begun():
    seeds = Seeds()
    seeds.begin()
    seeds.begin()
    assert len(rng.draw_listeners) == 1
    seeds.set(5)
    first = torch.rand(3, device="neuron")
    second = torch.rand(3, device="neuron")
    assert not torch.equal(first, second)
    assert rng.generator(0).initial_seed() == (3601076 * 214013 + 2531011) % 2**64
    seeds.set(5)
    assert torch.equal(torch.rand(3, device="neuron"), first)
    state = torch.neuron.get_rng_state()
    torch.rand(5, device="neuron")
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="neuron"), second)
