"""Random numbers: by shape, by repetition, and by what recompiles; never by value.

Each function is a program, as in cut_programs.py.
"""

import torch
import torch_xla
import torch_xla.core.xla_model as xm


def host(tensor):
    """A copy on the host."""
    return tensor.cpu()


def rand_with_a_cut_in_each_step(device):
    """A seed is an input: rand does not recompile if a cut ends each step."""
    for _ in range(4):
        x = torch.rand(3, device=device)
        torch_xla.sync()
    return list(x.shape)


def rand_read_without_a_cut(device):
    """Read without a cut, rand recompiles."""
    return [len(torch.rand(3, device=device).tolist()) for _ in range(4)]


def dropout_with_a_cut_in_each_step(device):
    """Dropout's seed is an input."""
    x = torch.ones(64).to(device)
    for _ in range(4):
        y = torch.nn.functional.dropout(x, 0.5)
        torch_xla.sync()
    return sorted({*y.tolist()})


def dropout_read_without_a_cut(device):
    """Dropout that is read without a cut."""
    x = torch.ones(64).to(device)
    torch_xla.sync()
    return [sorted({*torch.nn.functional.dropout(x, 0.5).tolist()}) for _ in range(3)]


def set_rng_state_repeats(device):
    """set_rng_state(s) repeats what followed."""
    xm.set_rng_state(5)
    first = host(torch.rand(4, device=device))
    xm.set_rng_state(5)
    second = host(torch.rand(4, device=device))
    xm.set_rng_state(6)
    third = host(torch.rand(4, device=device))
    return [torch.equal(first, second), torch.equal(first, third)]


def get_rng_state_of_a_seed(device):
    """get_rng_state gives the seed that was set."""
    xm.set_rng_state(5)
    return [xm.get_rng_state(), type(xm.get_rng_state()).__name__]


def get_rng_state_restores(device):
    """A state that was read in the middle repeats the rest."""
    xm.set_rng_state(5)
    host(torch.rand(4, device=device))
    torch_xla.sync()
    state = xm.get_rng_state()
    first = host(torch.rand(4, device=device))
    torch_xla.sync()
    xm.set_rng_state(state)
    second = host(torch.rand(4, device=device))
    return [torch.equal(first, second), state == 5]


def the_state_moves_at_a_draw(device):
    """A draw changes the state."""
    xm.set_rng_state(5)
    before = xm.get_rng_state()
    x = torch.rand(4, device=device)
    after = xm.get_rng_state()
    torch_xla.sync()
    later = xm.get_rng_state()
    return [before == after, after == later, len(x)]


def the_state_moves_at_a_cut(device):
    """A cut without a draw and the state."""
    xm.set_rng_state(5)
    x = torch.ones(4, device=device) * 2
    torch_xla.sync()
    return [xm.get_rng_state() == 5, x]


def torch_manual_seed_does_not_reset_the_device(device):
    """torch.manual_seed does not reset torch.rand on the device."""
    torch.manual_seed(3)
    first = host(torch.rand(4, device=device))
    torch.manual_seed(3)
    second = host(torch.rand(4, device=device))
    return torch.equal(first, second)


def torch_manual_seed_seeds_the_host(device):
    """torch.manual_seed seeds the host's numbers, which then go to the device."""
    torch.manual_seed(3)
    first = torch.rand(4).to(device)
    torch.manual_seed(3)
    second = torch.rand(4).to(device)
    return [torch.equal(host(first), host(second)), first]


def torch_xla_manual_seed(device):
    """torch_xla.manual_seed seeds the device."""
    torch_xla.manual_seed(3)
    first = host(torch.rand(4, device=device))
    torch_xla.manual_seed(3)
    second = host(torch.rand(4, device=device))
    return [torch.equal(first, second), xm.get_rng_state() == 3]


def two_draws_differ(device):
    """Two draws of a step differ."""
    x, y = torch.rand(4, device=device), torch.rand(4, device=device)
    torch_xla.sync()
    return torch.equal(host(x), host(y))


def rand_of_the_same_seed_and_another_shape(device):
    """Shapes of random tensors."""
    makes = (torch.rand, torch.randn)
    shapes = [list(make(2, 3, device=device).shape) for make in makes]
    return [*shapes, list(torch.randint(0, 9, (4,), device=device).shape)]


def randint_is_within_its_bounds(device):
    """randint's bounds."""
    x = torch.randint(2, 5, (256,), device=device)
    return [sorted({*x.tolist()}), str(x.dtype)]


def rand_is_within_its_bounds(device):
    """rand's bounds."""
    x = torch.rand(256, device=device)
    return [bool((x >= 0).all()), bool((x < 1).all())]


def normal_has_its_moments(device):
    """randn's mean and deviation."""
    x = host(torch.randn(4096, device=device))
    return [bool(abs(x.mean()) < 0.1), bool(abs(x.std() - 1) < 0.1)]


def bernoulli_has_its_mean(device):
    """bernoulli's mean."""
    x = host(torch.bernoulli(torch.full((4096,), 0.25).to(device)))
    return [bool(abs(x.mean() - 0.25) < 0.05), sorted({*x.tolist()})]


def in_place_random_numbers(device):
    """uniform_, normal_, bernoulli_, random_ and exponential_ repeat with their seed."""
    same = []
    for name in ("uniform_", "normal_", "bernoulli_", "exponential_"):
        xm.set_rng_state(5)
        first = host(getattr(torch.empty(8, device=device), name)())
        xm.set_rng_state(5)
        second = host(getattr(torch.empty(8, device=device), name)())
        same.append([name, torch.equal(first, second)])
    return same


def a_generator_of_the_device(device):
    """Generator("xla") raises."""
    torch.Generator(device)


def a_generator_of_the_host(device):
    """A generator of the host beside the device."""
    generator = torch.Generator().manual_seed(3)
    return list(torch.rand(2, generator=generator, device=device).shape)


def randperm_has_every_number(device):
    """randperm is a permutation, and repeats with its seed."""
    xm.set_rng_state(5)
    first = host(torch.randperm(8, device=device))
    xm.set_rng_state(5)
    second = host(torch.randperm(8, device=device))
    return [sorted(first.tolist()), torch.equal(first, second)]


def dropout_in_the_backward_pass(device):
    """The backward pass has the mask of the forward pass."""
    x = torch.ones(64).to(device).requires_grad_()
    y = torch.nn.functional.dropout(x, 0.5)
    y.sum().backward()
    torch_xla.sync()
    return torch.equal(host(y), host(x.grad))


def dropout_in_a_checkpoint(device):
    """A checkpointed function draws the same numbers again."""
    from torch_xla.utils.checkpoint import checkpoint

    x = torch.ones(64).to(device).requires_grad_()
    y = checkpoint(lambda z: torch.nn.functional.dropout(z, 0.5) * z, x)
    y.sum().backward()
    torch_xla.sync()
    return torch.equal(host(y) * 2, host(x.grad))


def the_modules_of_pytorchs_seeds(device):
    """torch.random.fork_rng keeps the host's state, and not the device's."""
    xm.set_rng_state(5)
    with torch.random.fork_rng(devices=[]):
        first = host(torch.rand(4, device=device))
    torch_xla.sync()
    second = host(torch.rand(4, device=device))
    return torch.equal(first, second)


def states_by_number(device):
    """The numbers of states: after a seed, a draw, two draws, a cut."""
    xm.set_rng_state(5)
    states = [xm.get_rng_state()]
    x = torch.rand(2, device=device)
    states.append(xm.get_rng_state())
    y = torch.randn(2, device=device).bernoulli_(0.5)
    states.append(xm.get_rng_state())
    torch_xla.sync()
    states.append(xm.get_rng_state())
    torch_xla.sync()
    states.append(xm.get_rng_state())
    z = torch.nn.functional.dropout(x + y, 0.5)
    states.append(xm.get_rng_state())
    z.cpu()
    states.append(xm.get_rng_state())
    z.sum().item()
    states.append(xm.get_rng_state())
    return states


def states_of_large_seeds(device):
    """Seeds beyond 32 bits, and negative ones."""
    states = []
    for seed in (2**32 + 5, 2**63 - 1, 0):
        xm.set_rng_state(seed)
        states.append(xm.get_rng_state())
        host(torch.rand(2, device=device))
        states.append(xm.get_rng_state())
        torch_xla.sync()
        states.append(xm.get_rng_state())
    return states


def a_seed_before_a_cut(device):
    """A cut between a seed and a draw changes what is drawn."""
    xm.set_rng_state(5)
    first = host(torch.rand(4, device=device))
    xm.set_rng_state(5)
    torch_xla.sync()
    second = host(torch.rand(4, device=device))
    return torch.equal(first, second)


def the_state_of_a_seed_that_is_too_large(device):
    """A seed of more than 64 bits, and a negative one."""
    results = []
    for seed in (2**64, -1):
        try:
            xm.set_rng_state(seed)
            results.append(xm.get_rng_state())
        except TypeError:
            results.append("TypeError")
    return results
