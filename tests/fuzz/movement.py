"""What the instructions that move and choose write, and registers; from AWS's pages in nki.isa."""

from __future__ import annotations

import numpy as np
from arithmetic import flat, reduced, word
from formats import FLOAT32
from operators import BINARY, is_nonzero
from value_intervals import Interval, summed

_FP32_MIN = -FLOAT32.largest


# Copies


def dma_copy(m, dst, src, **_):
    """Bits where formats agree, else through float32."""
    tensor_copy(m, dst, src)


def tensor_copy(m, dst, src, engine=None):
    """Bits where the formats agree, on every engine (release notes of NKI, components/nki.rst)."""
    del engine
    if m.format(src) is not m.format(dst):
        m.store(dst, m.load(src))
    else:
        m.put(dst, m.bits(src))


def dma_compute(m, dst, srcs, reduce_op):
    """The sum of the sources, element by element, in float32."""
    del reduce_op
    parts = [m.load(view).map(np.ravel) for view in srcs]
    low, high = (np.stack([getattr(part, end) for part in parts]) for end in ("low", "high"))
    m.store(dst, summed(Interval(low, high), 0).rounded())


def memset(m, dst, value, **_):
    filled = np.full(m.shape(dst), float(value))
    format_ = m.format(dst)
    if not format_.is_float or format_ is FLOAT32:
        m.put(dst, Interval(format_.rounded(filled)))
    else:  # a float constant is held in float32 first
        m.store(dst, Interval(filled).rounded(FLOAT32))


def nc_transpose(m, dst, data, **_):
    bits = flat(m.bits(data))
    m.need(np.isfinite(bits.low) & np.isfinite(bits.high), "a NaN spreads on v2")
    m.put(dst, bits.map(np.transpose))


def dma_transpose(m, dst, src, **_):
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(m.shape(src))]
    m.put(dst, m.bits(src).map(lambda x: x.transpose(axes)))


def nc_stream_shuffle(m, dst, src, shuffle_mask):
    """Within each quadrant of 32 partitions; 255 leaves a partition as it is."""
    count = m.shape(dst)[0]
    mask = np.asarray(shuffle_mask)[np.arange(count) % 32]
    origins = np.where(mask == 255, 0, np.arange(count) // 32 * 32 + mask)
    kept = np.broadcast_to((mask == 255)[:, None], (count, int(np.prod(m.shape(dst)[1:]))))
    m.put(dst, flat(m.bits(src)).map(lambda x: x[origins]), where=~kept)


# Patterns


def _affine(m, dst, pattern, offset, channel_multiplier):
    """offset + partition * channel_multiplier + sum of index * step, [P, F]."""
    along = np.zeros(1)
    for step, count in pattern:
        along = np.add.outer(along, np.arange(count) * step).reshape(-1)
    rows = np.arange(m.shape(dst)[0]) * channel_multiplier
    values = np.add.outer(rows + offset, along)
    m.need(np.abs(values) < 2.0**31, "an int32 overflow")
    return values


def iota(m, dst, pattern, offset=0, channel_multiplier=0):
    values = Interval(_affine(m, dst, pattern, offset, channel_multiplier))
    m.store(dst, values.rounded(FLOAT32) if m.format(dst).is_float else values)


def affine_select(
    m, dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset=0
):
    values = Interval(_affine(m, dst, pattern, offset, channel_multiplier))
    chosen = BINARY[word(cmp_op)](values, Interval(np.zeros(values.shape)))
    same = m.format(dst) is m.format(on_true_tile)
    source = flat(m.bits(on_true_tile)) if same else m.load(on_true_tile)
    source = source.rounded(m.format(dst))
    other = m.column(on_false_value, source).rounded(m.format(dst))
    m.put(dst, _chosen(chosen, source, other))


# Choices


def _chosen(condition, x, y):
    """x where the condition surely holds, y where it surely does not, else both."""
    low, high = np.minimum(x.low, y.low), np.maximum(x.high, y.high)
    yes, no = condition.low == 1, condition.high == 0
    return Interval(
        np.where(yes, x.low, np.where(no, y.low, low)),
        np.where(yes, x.high, np.where(no, y.high, high)),
    )


def tensor_copy_predicated(m, dst, src, predicate, reverse_pred=False):
    """Elements of dst that are not copied keep what they held, or stay unwritten."""
    chosen = is_nonzero(flat(m.bits(predicate)))
    m.need(chosen.is_point, "the predicate is not known")
    where = (chosen.low == 1) != reverse_pred
    if isinstance(src, float | int):
        values = Interval(np.full(where.shape, float(src))).rounded(m.format(dst))
    else:
        values = flat(m.bits(src))
    m.put(dst, values, where=where)


def select_reduce(
    m,
    dst,
    predicate,
    on_true,
    on_false,
    reduce_res=None,
    reduce_cmd=None,
    reverse_pred=False,
):
    x = m.load(on_true)
    condition = is_nonzero(flat(m.bits(predicate)))
    if reverse_pred:
        condition = Interval(1 - condition.high, 1 - condition.low)
    values = _chosen(condition, x, m.column(on_false, x))
    total = reduced(m, "vector", "maximum", values, word(reduce_cmd) or "idle")
    m.store(dst, values)
    if reduce_res is not None:
        m.store(reduce_res, total)


def range_select(
    m,
    dst,
    on_true_tile,
    comp_op0,
    comp_op1,
    bound0,
    bound1,
    reduce_cmd=None,
    reduce_res=None,
    range_start=0,
):
    x = m.load(on_true_tile)
    index = Interval(np.arange(range_start, range_start + x.shape[1], dtype=float)[None])
    inside = BINARY["logical_and"](
        BINARY[word(comp_op0)](index, m.load(bound0)),
        BINARY[word(comp_op1)](index, m.load(bound1)),
    )
    values = _chosen(inside, x, Interval(np.full((x.shape[0], 1), _FP32_MIN)))
    total = reduced(m, "vector", "maximum", values, word(reduce_cmd) or "reset_reduce")
    m.store(dst, values)
    if reduce_res is not None:
        m.store(reduce_res, total)


# Gathers


def whole_numbers(m, view):
    """What a tile of indices holds, as [P, F]."""
    x = m.bits(view)
    m.need(x.is_point, "the indices are not known")
    return x.low.reshape(x.shape[0], -1).astype(int)


def nc_n_gather(m, dst, data, indices):
    places = whole_numbers(m, indices)
    x = flat(m.bits(data))
    m.need(places < x.shape[1])
    m.put(dst, x.map(lambda v: np.take_along_axis(v, places, axis=1)))


def local_gather(m, dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None):
    """Each GpSimd core takes the indices of its own 16 partitions, column by column."""
    x, own = flat(m.bits(src_buffer)), whole_numbers(m, index)
    parts = []
    for core in range(len(own) // 16):
        rows = slice(16 * core, 16 * core + 16)
        starts = own[rows].T.reshape(-1)[:num_valid_indices]
        places = (starts[:, None] + np.arange(num_elem_per_idx)).reshape(-1)
        m.need(places < x.shape[1])
        parts.append(x.map(lambda v, rows=rows, places=places: v[rows][:, places]))
    low, high = (np.concatenate([getattr(p, end) for p in parts]) for end in ("low", "high"))
    m.put(dst, Interval(low, high))


# Registers


def register(m, name, value):
    """What a register holds from here on."""
    m.variables[name] = value if isinstance(value, int) else m.variables[value]


def register_move(m, name, value):
    """A constant, or what another register holds."""
    register(m, name, value)


def register_load(m, name, src):
    value = m.bits(src)
    m.need(value.is_point)
    m.variables[name] = int(value.low.reshape(-1)[0])


def register_store(m, dst, name):
    m.store(dst, Interval(np.full(m.shape(dst), float(m.variables[name]))))


def exchange(m, tile):
    """Two cores, which have done the same, give each other a tile by way of shared HBM."""
    m.put(tile, m.bits(tile))
