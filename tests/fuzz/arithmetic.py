"""What the instructions that compute write, told from AWS's page of each in nki.isa.

Each function takes the oracle's state and the operands of a step by AWS's names. Arithmetic is
float32 (`operators`), rounded once on write (`Oracle.store`).
"""

from __future__ import annotations

import numpy as np
from formats import FLOAT32
from kernel import Name
from operators import (
    BINARY,
    BITVEC,
    IDENTITY,
    RANGES,
    REDUCE,
    UNARY,
    activate,
    bitvec,
    negated,
)
from value_intervals import Interval, corners

_WIDE = ("int32", "uint32")
_RESET = Name("nisa.reduce_cmd.reset_reduce")


def word(name):
    """An operator's or an enumeration's own name; None for none."""
    return None if name is None else name.last


def _operate(name, x, operand, *, reverse=False):
    if name is None or name == "bypass":
        return x
    if name in UNARY:
        return UNARY[name](x)
    return BINARY[name](operand, x) if reverse else BINARY[name](x, operand)


def flat(x):
    return x.map(lambda values: values.reshape(values.shape[0], -1))


# Element by element


def tensor_tensor(m, dst, data1, data2, op, engine=None):
    name = word(op)
    if name in BITVEC:
        x, y = flat(m.bits(data1)), flat(m.bits(data2))
        _need_shift(m, name, y, m.format(data1))
        m.put(dst, bitvec(name, x, y, m.format(dst)))
        return
    views = (dst, data1, data2)
    in_psum = any(m.tensor(view).buffer == "psum" for view in views)
    chosen = word(engine) or ("vector" if in_psum else "gpsimd")
    if chosen == "gpsimd" and all(m.format(view).name in _WIDE for view in views):
        _exact_integers(m, name, *views)
        return
    m.store(dst, BINARY[name](m.load(data1), m.load(data2)))


def _exact_integers(m, name, dst, data1, data2):
    """32-bit integers on GpSimd; what leaves their range is not documented."""
    x, y = flat(m.bits(data1)), flat(m.bits(data2))
    plain = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
    result = corners(plain[name], x, y) if name in plain else BINARY[name](x, y)
    for format_ in map(m.format, (dst, data1, data2)):
        m.need((result.low >= format_.smallest) & (result.high <= format_.largest))
    m.put(dst, result)


def _need_shift(m, name, amount, format_):
    if name.endswith("shift"):
        m.need((amount.low >= 0) & (amount.high < 8 * format_.itemsize), "a shift by too much")


def tensor_scalar(
    m, dst, data, op0, operand0=None, reverse0=False, op1=None, operand1=None, reverse1=False, **_
):
    chain = ((word(op0), operand0, reverse0), (word(op1), operand1, reverse1))
    if any(name in (*BITVEC, "invert") for name, _, _ in chain):
        _bitvec_chain(m, dst, data, chain)
        return
    x = m.load(data)
    for name, operand, reverse in chain:
        x = _operate(name, x, m.column(operand, x), reverse=reverse)
    m.store(dst, x)


def _bitvec_chain(m, dst, data, chain):
    x, format_ = flat(m.bits(data)), m.format(data)
    for name, operand, reverse in chain:
        if name is None:
            continue
        y = Interval(np.full(x.shape, float(operand or 0)))
        left, right = (y, x) if reverse else (x, y)
        _need_shift(m, name, right, format_)
        x = bitvec(name, left, right, format_)
    m.put(dst, x)


def scalar_tensor_tensor(
    m, dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False
):
    x = m.load(data)
    x = _operate(word(op0), x, m.column(operand0, x), reverse=reverse0)
    m.store(dst, _operate(word(op1), x, m.load(operand1), reverse=reverse1))


def reciprocal(m, dst, data):
    m.store(dst, UNARY["reciprocal"](m.load(data)))


# Reductions and accumulators


def reduced(m, engine, op, x, command, initial=None):
    """What the registers of an engine hold after they took the rows of x, or None."""
    if command == "idle":
        m.accumulators["vector"] = None if engine == "vector" else m.accumulators["vector"]
        return None
    start = Interval(np.full((x.shape[0], 1), IDENTITY[op]))
    if command == "reduce":
        start = m.accumulators[engine]
        m.need(start is not None and start.shape[0] == x.shape[0], "no reduction to continue")
    elif command == "load_reduce":
        start = m.column(initial, x)
    total = REDUCE[op](x).map(lambda v: v[:, None])
    m.accumulators[engine] = BINARY[op](start, total)
    return m.accumulators[engine]


def tensor_reduce(m, dst, op, data, axis, negate=False, keepdims=False):
    del keepdims
    name, first = word(op), min(axis if isinstance(axis, tuple) else (axis,))
    x = m.bits(data).map(lambda v: v.reshape(*v.shape[:first], -1))
    if name in BITVEC:
        format_, total = m.format(data), x.map(lambda v: v[..., 0])
        for i in range(1, x.shape[-1]):
            total = bitvec(name, total, x.map(lambda v, i=i: v[..., i]), format_)
        m.put(dst, total)
        return
    total = REDUCE[name](x.rounded(FLOAT32))
    m.store(dst, negated(total) if negate else total)


def tensor_partition_reduce(m, dst, op, data):
    """Over the partition axis; `average` divides the sum."""
    name = word(op)
    if name in BITVEC:
        x, format_ = flat(m.bits(data)), m.format(data)
        total = x.map(lambda v: v[0])
        for i in range(1, x.shape[0]):
            total = bitvec(name, total, x.map(lambda v, i=i: v[i]), format_)
        m.put(dst, total)
        return
    x = m.load(data)
    total = REDUCE["add" if name == "average" else name](x.map(np.transpose))
    if name == "average":
        total = corners(lambda v: v / x.shape[0], total).rounded()
    m.store(dst, total)


def tensor_scalar_reduce(
    m,
    dst,
    data,
    op0,
    operand0,
    reduce_op,
    reduce_res=None,
    reduce_cmd=None,
    reduce_init=None,
    reduce_res_negate=False,
):
    x = m.load(data)
    x = _operate(word(op0), x, m.column(operand0, x))
    command = word(reduce_cmd) or "reset_reduce"
    total = reduced(m, "vector", word(reduce_op), x, command, reduce_init)
    m.store(dst, x)
    if reduce_res is not None:
        m.store(reduce_res, negated(total) if reduce_res_negate else total)


def tensor_scalar_cumulative(m, dst, src, op0, op1, imm0, imm1=None, reduce_cmd=None):
    x = m.load(src)
    x = _operate(word(op0), x, m.column(imm0, x))
    command, name = word(reduce_cmd) or "reset_reduce", word(op1)
    state = Interval(np.full((x.shape[0], 1), IDENTITY[name]))
    if command == "load_reduce":
        state = m.column(imm1, x)
    elif command == "reduce":
        state = m.accumulators["vector"]
        m.need(state is not None and state.shape[0] == x.shape[0], "no reduction to continue")
    columns = []
    for i in range(x.shape[1]):
        state = BINARY[name](x.map(lambda v, i=i: v[:, i : i + 1]), state)
        columns.append(state)
    m.accumulators["vector"] = state
    m.store(dst, _beside(columns))


def tensor_tensor_scan(m, dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False):
    x, y = m.load(data0), m.load(data1)
    state, columns = m.column(initial, x), []
    for i in range(x.shape[1]):
        left, right = (z.map(lambda v, i=i: v[:, i : i + 1]) for z in (x, y))
        state = _operate(word(op0), left, state, reverse=reverse0)
        state = _operate(word(op1), state, right, reverse=reverse1)
        columns.append(state)
    m.store(dst, _beside(columns))


def _beside(columns):
    low = np.concatenate([column.low for column in columns], axis=1)
    return Interval(low, np.concatenate([column.high for column in columns], axis=1))


# The Scalar Engine


def activation(m, dst, op, data, bias=None, scale=1.0, reduce_res=None, reduce_cmd=None, **_):
    x = m.load(data)
    x = BINARY["multiply"](x, m.column(scale, x))
    if bias is not None:
        x = BINARY["add"](x, m.column(bias, x))
    _need_range(m, word(op), x)
    result = activate(word(op), x)
    command = word(reduce_cmd) or "idle"
    m.store(dst, result)
    total = reduced(m, "scalar", "add", result, command)
    if reduce_res is not None:
        m.store(reduce_res, total)


def activation_reduce(m, dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0):
    del reduce_op
    activation(m, dst, op, data, bias, scale, reduce_res, _RESET)


def activate2(
    m,
    dst,
    op,
    data,
    imm0,
    imm1,
    op0,
    op1,
    reverse0=False,
    reverse1=False,
    reduce_op=None,
    reduce_res=None,
    reduce_cmd=None,
):
    x = m.load(data)
    for name, operand, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1)):
        x = _operate(word(name), x, m.column(operand, x), reverse=reverse)
    _need_range(m, word(op), x)
    result = activate(word(op), x)
    m.store(dst, result)
    total = reduced(m, "scalar", word(reduce_op), result, word(reduce_cmd) or "idle")
    if reduce_res is not None:
        m.store(reduce_res, total)


def _need_range(m, name, x):
    low, high = RANGES.get(name, (None, None))
    if low is None:
        return
    if name == "reciprocal":
        m.need((x.low >= low) & (x.high <= high) | (x.low >= -high) & (x.high <= -low))
    else:
        m.need((x.low >= low) & (x.high <= high), f"out of the range of {name}")


def exponential(m, dst, src, max_value=0.0, reduce_res=None, reduce_cmd=None, reduce_init=0.0):
    x = m.load(src)
    x = activate("exp", BINARY["subtract"](x, m.column(max_value, x)))
    total = reduced(m, "vector", "add", x, word(reduce_cmd) or "idle", reduce_init)
    m.store(dst, x)
    if reduce_res is not None:
        m.store(reduce_res, total)
