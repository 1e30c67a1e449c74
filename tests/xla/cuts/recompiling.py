"""Forty programs that compile twice for one cause each.

A program is a function of the round, 0 or 1, after which the step ends. The comment at a line says
the kind of the cause that is found there.
"""

import torch
import torch_xla
from torch.nn import functional

DEVICE = torch_xla.device()


def filled(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype).to(DEVICE)


SQUARE, TALL, HALF = filled(4, 4), filled(6, 4), filled(4, 4).half()
WHOLE, MASK = filled(4, 4, dtype=torch.int64), filled(4, 4) > 0
IMAGE = filled(1, 2, 8, 8)
torch_xla.sync()


def row_by_index(number):
    return SQUARE[number] * 2.5  # index


def column_by_index(number):
    return SQUARE[:, number].exp()  # index


def longer_slice(number):
    return SQUARE[: 2 + number].exp()  # index


def later_slice(number):
    return SQUARE[number : number + 2].sin()  # index


def select_of_a_view(number):
    return SQUARE.t()[number].cos()  # index


def written_row(number):
    copied = SQUARE.clone()
    copied[number] = 2.5  # index
    return copied


def other_input_shape(number):
    return (SQUARE, TALL)[number].exp()  # shape


def other_batch_in_a_product(number):
    return (SQUARE, TALL)[number] @ SQUARE  # shape


def short_last_batch(number):
    batch = torch.ones(8 - 3 * number, 4).to(DEVICE)
    hidden = batch.relu()  # shape
    return hidden @ SQUARE


def larger_size(number):
    return torch.zeros(3 + number, device=DEVICE).exp()  # shape


def longer_range(number):
    return torch.arange(3 + number, device=DEVICE)  # constant


def half_precision(number):
    return (SQUARE, HALF)[number].sqrt()  # dtype


def whole_numbers(number):
    return (SQUARE, WHOLE)[number].abs()  # dtype


def other_cast(number):
    return SQUARE.exp().to((torch.float16, torch.bfloat16)[number])  # dtype


def sum_in_another_dtype(number):
    return WHOLE.sum(dtype=(torch.int64, torch.int32)[number])  # dtype


def exponent(number):
    return SQUARE ** (2.0 + number)  # constant


def epsilon_of_a_layer_norm(number):
    return functional.layer_norm(SQUARE, (4,), eps=(1e-5, 1e-6)[number])  # constant


def epsilon_of_a_batch_norm(number):
    eps = (1e-5, 1e-3)[number]
    return functional.batch_norm(IMAGE, None, None, training=True, eps=eps)  # constant


def summed_dimension(number):
    return SQUARE.sum(number)  # constant


def kept_dimension(number):
    return SQUARE.amax(1, keepdim=bool(number))  # constant


def rolled_by(number):
    return SQUARE.roll(1 + number, 0)  # constant


def triangle(number):
    return SQUARE.tril(number)  # constant


def largest(number):
    return SQUARE.topk(2 + number).values  # constant


def repeated(number):
    return SQUARE.repeat(1, 2 + number)  # view


def threshold_at(number):
    return functional.threshold(SQUARE, 2.0 + number, 0.0)  # constant


def stride_of_a_pool(number):
    return functional.max_pool2d(IMAGE, 2 + 2 * number)  # constant


def order_of_a_norm(number):
    return torch.linalg.vector_norm(SQUARE, 2 + number)  # constant


def approximate_gelu(number):
    return functional.gelu(SQUARE, approximate=("none", "tanh")[number])  # constant


def correction_of_a_deviation(number):
    return SQUARE.std(correction=number)  # constant


def factor_of_one(number):
    return SQUARE.log() * (3.0, 1.0)[number]  # number


def bias_of_zero(number):
    return SQUARE.cosh() + (2.5, 0.0)[number]  # number


def bound_of_zero(number):
    return SQUARE.sinh().clamp(min=(0.5, 0.0)[number])  # number


def equal_numbers(number):
    scaled = SQUARE.tanh() * 2.5
    return scaled + (3.5, 2.5)[number]  # equal numbers


def tensor_in_the_live_set(number):
    hidden = SQUARE.sigmoid()  # result
    result = hidden.exp()
    return (result, hidden) if number else result


def one_call_more(number):
    hidden = SQUARE.erf()
    if number:
        hidden = hidden.relu()  # call
    return hidden.log1p()


def one_call_less(number):
    hidden = SQUARE.expm1()
    if not number:
        hidden = hidden.neg()  # call
    return hidden.sqrt()


def another_call(number):
    hidden = SQUARE.atan()
    return (torch.floor, torch.ceil)[number](hidden)  # call


def running_total(number):
    total = filled(()) if not number else None
    for _ in range(2 - 2 * number):
        total = total + SQUARE.asin().sum()  # growth
        total.item()


def random_numbers_drawn_before(number):
    if number:
        torch.rand(3, device=DEVICE)  # seed
    return torch.rand(3, device=DEVICE).acos()


def masked_rows_of_another_number(number):
    chosen = MASK.clone()
    chosen[:number] = False
    torch_xla.sync()
    rows = SQUARE[chosen]  # shape
    return rows.square()


PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and name != "filled"
]
