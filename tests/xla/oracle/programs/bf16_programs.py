"""XLA_USE_BF16=1: float32 and float64 are bfloat16 on the device, while dtype says float32.

Each function is a program, as in cut_programs.py. The variable is set before the import, as by a
launch script.
"""

import os

os.environ["XLA_USE_BF16"] = "1"

import torch
import torch_xla

FINE = 1.0 + 2**-12
"""A number that bfloat16 does not have."""


def values(tensor):
    """A tensor's dtype and values, which are read on the host."""
    return [str(tensor.dtype), tensor]


def a_number_sent_to_the_device(device):
    """A float32 of the host is rounded when it is sent."""
    return values(torch.tensor([FINE, 1 / 3, 1e-20, 3e38]).to(device))


def a_double_sent_to_the_device(device):
    """A float64 of the host is rounded."""
    return values(torch.tensor([FINE, 1 / 3], dtype=torch.float64).to(device))


def a_half_sent_to_the_device(device):
    """A float16 stays a float16."""
    return values(torch.tensor([1.0 + 2**-10], dtype=torch.float16).to(device))


def a_tensor_made_on_the_device(device):
    """Factories on the device."""
    return [
        values(torch.tensor([FINE], device=device)),
        values(torch.full((1,), FINE, device=device)),
        values(torch.linspace(0, 1, 4, device=device)),
        values(torch.arange(0, 2, 0.7, device=device)),
    ]


def a_sum_that_rounds(device):
    """256 + 1 is 256 in bfloat16."""
    a = torch.tensor([256.0]).to(device)
    return values(a + 1)


def a_number_that_is_an_input(device):
    """A Python number is rounded too."""
    return [values(torch.zeros(1).to(device) + FINE), values(torch.ones(1).to(device) * (1 / 3))]


def a_double_computed(device):
    """float64 computes in bfloat16."""
    a = torch.tensor([256.0], dtype=torch.float64).to(device)
    return values(a + 1)


def a_long_sum(device):
    """The sum of many ones."""
    return values(torch.ones(1024).to(device).sum())


def a_product_of_matrices(device):
    """A product of matrices."""
    a = torch.linspace(0, 1, 16).reshape(4, 4).to(device)
    return values(a @ a)


def a_division(device):
    """1 / 3."""
    return values(torch.ones(1).to(device) / 3)


def a_chain_of_operators(device):
    """Each operator of a chain rounds."""
    a = torch.tensor([1 / 3, 0.7]).to(device)
    return values((a * 3.1 - 1).exp() * a)


def a_cast_to_double(device):
    """A cast to float64 on the device."""
    a = torch.tensor([1 / 3]).to(device)
    return values(a.double() * 3)


def a_cast_of_integers(device):
    """Integers are as they are; their cast to float rounds."""
    a = torch.tensor([257, 1000001]).to(device)
    return [values(a), values(a.float()), values(a + 0.5)]


def an_element_read(device):
    """.item() of a rounded number."""
    return torch.tensor(1 / 3).to(device).item()


def what_dtype_says(device):
    """dtype, element_size and nbytes."""
    a = torch.ones(4).to(device)
    return [str(a.dtype), a.element_size(), a.nbytes, str((a @ a).dtype), str(a.double().dtype)]


def an_optimizer_step_that_is_lost(device):
    """A small step is lost in bfloat16."""
    parameter = torch.nn.Parameter(torch.ones(2).to(device))
    optimizer = torch.optim.SGD([parameter], lr=1e-3)
    parameter.grad = torch.ones(2).to(device)
    optimizer.step()
    torch_xla.sync()
    return values(parameter)


def a_comparison(device):
    """A comparison of rounded numbers."""
    a = torch.tensor([FINE]).to(device)
    return [a == 1.0, a > 1.0]


def a_linear_layer(device):
    """A layer and its gradient."""
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, 6).reshape(2, 3) / 3)
        layer.bias.copy_(torch.tensor([0.1, 0.2]))
    layer.to(device)
    result = layer(torch.linspace(-1, 1, 6).reshape(2, 3).to(device))
    result.square().sum().backward()
    torch_xla.sync()
    return [values(result), values(layer.weight.grad)]


def a_softmax(device):
    """A softmax."""
    return values(torch.softmax(torch.linspace(-3, 3, 8).to(device), 0))


def random_numbers(device):
    """Random numbers are bfloat16."""
    x = torch.rand(64, device=device).cpu()
    return [str(x.dtype), torch.equal(x, x.bfloat16().float())]
