"""What compiles again, and what does not: four steps of a loop, one change in each.

Each function is a program, as in cut_programs.py.
"""

import torch
import torch_xla
import torch_xla.debug.metrics as met


def repeated(device, step, count=4):
    """The results of `step(a, i)` for i below `count`, a cut after each."""
    a = torch.arange(1.0, 7.0).reshape(2, 3).to(device)
    torch_xla.sync()
    results = []
    for number in range(count):
        results.append(step(a, number))
        torch_xla.sync()
    return results


def the_same_step(device):
    """The same operators on the same shapes are one program."""
    return repeated(device, lambda a, i: (a * a).sum())


def a_number_multiplied(device):
    """A Python number in mul is an input."""
    return repeated(device, lambda a, i: a * (i + 2.5))


def a_number_added(device):
    """A Python number in add is an input."""
    return repeated(device, lambda a, i: a + (i + 2.5))


def a_number_subtracted(device):
    """A Python number in sub is an input."""
    return repeated(device, lambda a, i: a - (i + 2.5))


def a_number_divided_by(device):
    """A Python number in div is an input."""
    return repeated(device, lambda a, i: a / (i + 2.5))


def an_integer_multiplied(device):
    """A Python integer in mul is an input too."""
    return repeated(device, lambda a, i: a * (i + 2))


def the_alpha_of_add(device):
    """alpha of add is an input."""
    return repeated(device, lambda a, i: torch.add(a, a, alpha=i + 2.5))


def the_bounds_of_clamp(device):
    """The bounds of clamp are inputs."""
    return repeated(device, lambda a, i: a.clamp(i + 2.5, i + 4.25))


def the_value_of_full(device):
    """The value of full is an input."""
    return repeated(device, lambda a, i: a + torch.full((2, 3), i + 2.5, device=a.device))


def the_value_of_fill(device):
    """The value of fill_ is an input."""
    return repeated(device, lambda a, i: torch.empty_like(a).fill_(i + 2.5) + a)


def zero_and_one_are_special(device):
    """0 and 1 are constants: a * 0, a * 1, a * 2, a * 3 are three programs."""
    return repeated(device, lambda a, i: a * i)


def zero_and_one_added(device):
    """0 and 1 in add are constants."""
    return repeated(device, lambda a, i: a + float(i))


def equal_numbers_share_an_input(device):
    """`a * 2.5 + v` for v = 2.5, 3.5, 4.5: equal numbers share one input, so two programs."""
    return repeated(device, lambda a, i: a * 2.5 + (i + 2.5), 3)


def the_exponent_of_pow(device):
    """The exponent of pow is a constant."""
    return repeated(device, lambda a, i: a ** (i + 2))


def a_fractional_exponent(device):
    """A fractional exponent of pow."""
    return repeated(device, lambda a, i: a ** (i + 2.5))


def the_eps_of_layer_norm(device):
    """eps of layer_norm is a constant."""
    norm = torch.nn.functional.layer_norm
    return repeated(device, lambda a, i: norm(a, (3,), eps=10.0 ** -(i + 3)))


def the_bounds_of_arange(device):
    """The bounds of arange are constants."""
    return repeated(device, lambda a, i: torch.arange(i, i + 3, device=a.device) + a[0])


def a_slice_index(device):
    """A slice index is a constant."""
    return repeated(device, lambda a, i: a[:, i:] * a[:, i:], 3)


def a_select_index(device):
    """A loop over a[i] compiles every i."""
    return repeated(device, lambda a, i: a[i] * 3.5, 2)


def a_loop_over_the_rows_read_on_the_host(device):
    """A loop over a[i].item() compiles every i."""
    a = torch.arange(4.0).to(device)
    torch_xla.sync()
    return [a[i].item() for i in range(4)]


def a_size(device):
    """A size is a constant."""
    return repeated(device, lambda a, i: torch.ones(i + 2, device=a.device) * 2.5)


def a_shape(device):
    """Another shape is another program."""
    results = []
    for length in (2, 3, 4, 2):
        x = torch.ones(length).to(device)
        results.append((x * 2.5).sum())
        torch_xla.sync()
    return results


def a_dtype(device):
    """Another dtype is another program."""
    results = []
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.float32):
        x = torch.ones(3, dtype=dtype).to(device)
        results.append((x + x).sum())
        torch_xla.sync()
    return results


def the_dimension_of_a_sum(device):
    """The dimension of a reduction is a constant."""
    return repeated(device, lambda a, i: a.sum(i % 2) * 2.5)


def a_new_tensor_in_the_live_set(device):
    """A further live result is another program."""
    kept = []

    def step(a, i):
        if i == 2:
            kept.append(a - 2.5)
        return a * 2.5

    return repeated(device, step)


def a_result_that_is_not_kept(device):
    """A result that is gone at the cut changes no program."""

    def step(a, i):
        if i == 2:
            a - 2.5
        return a * 2.5

    return repeated(device, step)


def a_host_read_in_every_step(device):
    """A host read in every step costs one or two programs, not one a step."""

    def step(a, i):
        loss = (a * (i + 2.5)).sum()
        loss.item()
        return loss

    return repeated(device, step)


def a_running_total_without_a_cut(device):
    """A running total that is read without mark_step grows and compiles each time."""
    x = torch.ones(3).to(device)
    total = torch.zeros(3).to(device)
    torch_xla.sync()
    values = []
    for _ in range(4):
        total = total + x
        values.append(total.sum().item())
    return values


def a_running_total_with_cuts(device):
    """With a mark_step in each step the total is an input."""
    x = torch.ones(3).to(device)
    total = torch.zeros(3).to(device)
    torch_xla.sync()
    for _ in range(4):
        total = total + x
        torch_xla.sync()
    return total


def an_in_place_total_with_cuts(device):
    """An update in place is one program."""
    x = torch.ones(3).to(device)
    total = torch.zeros(3).to(device)
    torch_xla.sync()
    for _ in range(4):
        total += x
        torch_xla.sync()
    return total


def a_write_at_an_index(device):
    """A write at another index is another program."""
    x = torch.zeros(4).to(device)
    torch_xla.sync()
    for number in range(4):
        x[number] = number + 2.5
        torch_xla.sync()
    return x


def an_index_that_is_a_tensor(device):
    """An index on the device is an input."""
    x = torch.arange(4.0).to(device)
    results = []
    for number in range(4):
        at = torch.tensor([number]).to(device)
        results.append(x.index_select(0, at) * 2.5)
        torch_xla.sync()
    return results


def a_negative_slope(device):
    """The slope of leaky_relu."""
    leaky = torch.nn.functional.leaky_relu
    return repeated(device, lambda a, i: leaky(a - 3, 0.125 * (i + 2)))


def a_threshold_compared(device):
    """A number that is compared."""
    return repeated(device, lambda a, i: (a > i + 2.5).sum())


def a_filled_mask(device):
    """The value of masked_fill."""
    return repeated(device, lambda a, i: a.masked_fill(a > 3, i + 2.5))


def an_interpolation_weight(device):
    """The weight of lerp."""
    return repeated(device, lambda a, i: torch.lerp(a, a * 2, 0.125 * (i + 2)))


def a_maximum_with_a_number(device):
    """A number in clamp_min."""
    return repeated(device, lambda a, i: a.clamp_min(i + 2.5))


def the_number_of_repetitions(device):
    """The counts of repeat."""
    return repeated(device, lambda a, i: a.repeat(1, i + 1).sum(1))


def a_rolled_tensor(device):
    """The shift of roll."""
    return repeated(device, lambda a, i: torch.roll(a, i, 1) * 2.5, 3)


def a_probability_of_dropout(device):
    """The probability of dropout; the seed is an input."""
    drop = torch.nn.functional.dropout
    results = repeated(device, lambda a, i: drop(a, 0.125 * (i + 2)))
    return [list(result.shape) for result in results]


def a_tensor_from_the_host_in_each_step(device):
    """A batch from the host is an input."""
    results = []
    for number in range(4):
        batch = torch.full((3,), float(number)).to(device)
        results.append((batch * batch).sum())
        torch_xla.sync()
    return results


def a_scalar_tensor_in_each_step(device):
    """A tensor of a Python number on the device is an input."""
    results = []
    for number in range(4):
        scale = torch.tensor(number + 2.5, device=device)
        results.append(torch.ones(3, device=device) * scale)
        torch_xla.sync()
    return results


def the_same_program_after_another(device):
    """A program that was compiled is found again."""
    a = torch.ones(3).to(device)
    torch_xla.sync()
    for name in ("add", "mul", "add", "mul"):
        result = getattr(torch, name)(a, a)
        torch_xla.sync()
        del result


def the_order_of_operands(device):
    """a - b and b - a are one program of two inputs."""
    a, b = torch.ones(3).to(device), torch.full((3,), 2.5).to(device)
    torch_xla.sync()
    for first, second in ((a, b), (b, a), (a, b)):
        result = first - second
        torch_xla.sync()
    return result


def the_same_tensor_twice(device):
    """a + a and a + b differ: aliases are a part of the key."""
    a, b = torch.ones(3).to(device), torch.full((3,), 2.5).to(device)
    torch_xla.sync()
    for second in (b, a, b):
        result = a + second
        torch_xla.sync()
    return result


def a_compiled_function(device):
    """torch_xla.compile: a call is a program of its own."""

    @torch_xla.compile
    def square(x):
        return x * x

    a = torch.full((3,), 2.5).to(device)
    results = [square(a) for _ in range(3)]
    return [results[-1], met.counter_value("MarkStep")]


def a_step_context(device):
    """torch_xla.step: a cut before and one after."""
    a = torch.full((3,), 2.5).to(device)
    for _ in range(3):
        with torch_xla.step():
            b = a * a
    return b
