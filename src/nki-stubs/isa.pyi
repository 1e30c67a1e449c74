# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.isa.control.cores import DmaEngine as _DmaEngine
from trnsim.isa.language.modes import DgeMode as _DgeMode
from trnsim.isa.language.modes import Engine as _Engine
from trnsim.isa.language.modes import MatmulPerfMode as _MatmulPerfMode
from trnsim.isa.language.modes import NcVersion as _NcVersion
from trnsim.isa.language.modes import OobMode as _OobMode
from trnsim.isa.language.modes import ReduceCmd as _ReduceCmd
from trnsim.nki.indexing import MemoryRegion as MemoryRegion
from trnsim.nki.instruction import NkiInstruction as NkiInstruction
from trnsim.nki.instruction import dependency as dependency
from trnsim.nki.language_operators import Operator as Operator
from trnsim.nki.scalars import NkiScalar as NkiScalar
from trnsim.nki.tensor import NkiTensor as NkiTensor
from typing import Any

def activate2(dst: Any, op: Any, data: Any, imm0: Any, imm1: Any, op0: Any, op1: Any, relu_param: Any = 0.0, reverse0: Any = False, reverse1: Any = False, reduce_op: Any = None, reduce_res: Any = None, reduce_cmd: Any = ..., name: Any = None) -> Any:
    """``dst = op((data <op0> imm0) <op1> imm1)``, reduced along the free axis into the accumulator.

    `imm0`, `imm1` and `relu_param` are numbers or [P, 1] tiles; `reverse0` and `reverse1` swap the
    two sides of an operator; nl.bypass skips a stage. The accumulator is that of `activation`; a
    reset sets it to the identity of `reduce_op`.

    Note:
        Functions are evaluated in float32; the chip approximates them by polynomials that AWS does
        not publish. The order in which a lane reduces is not documented.
    """
    ...
def activation(dst: Any, op: Any, data: Any, bias: Any = None, scale: Any = 1.0, reduce_op: Any = None, reduce_res: Any = None, reduce_cmd: Any = ..., name: Any = None) -> Any:
    """``dst = op(data * scale + bias)``; sums along the free axis go to the accumulator.

    `scale` and `bias` are numbers or [P, 1] tiles; on v2 `bias` must be a tile. The Scalar Engine
    keeps one float32 sum per lane between instructions: reduce_cmd sets it to zero (reset), adds to
    it (reduce), does both (reset_reduce) or neither (idle). `reduce_res` [P, 1] receives the sum.

    Note:
        AWS's pseudo code adds the old sum twice in `reduce`; its prose, followed here, adds it
        once. Functions are evaluated in float32; the chip approximates them by polynomials that AWS
        does not publish. The order in which a lane adds is not documented.
    """
    ...
def activation_reduce(dst: Any, op: Any, data: Any, reduce_op: Any, reduce_res: Any, bias: Any = None, scale: Any = 1.0, name: Any = None) -> Any:
    """``dst = op(data * scale + bias); reduce_res = sum(dst)``: activation with reset_reduce.

    With reduce_res=None the sum stays in the accumulator, for a later `activation`.

    Note:
        AWS requires nl.add on v2 and does not say which operators later generations accept; others
        are refused there too, as unspecified.
    """
    ...
def affine_select(dst: Any, pattern: Any, channel_multiplier: Any, on_true_tile: Any, on_false_value: Any, cmp_op: Any = ..., offset: Any = 0, name: Any = None) -> Any:
    """``dst = on_true_tile where cmp_op(value, 0) else on_false_value``, value as in iota.

    dst and on_true_tile are [P, F]. Where their dtypes agree, elements are copied bit for bit, else
    through float32. `on_false_value` is rounded once to the dtype of dst.
    """
    ...
def bn_aggr(dst: Any, data: Any, name: Any = None) -> Any:
    """``dst = [mean, variance]`` of all elements that bn_stats summarized in ``data``: [P, 2].

    `data` has any number of triples (count, mean, variance * count); the variance is the
    population's.
    """
    ...
def bn_stats(dst: Any, data: Any, name: Any = None) -> Any:
    """``dst = [count, mean, variance * count] of data[:, 0::2], then of data[:, 1::2]``: [P, 6].

    Computed in float32.

    Note:
        With F = 1 there are no odd elements: all three of their values are 0, with which alone
        bn_aggr's result is right. AWS does not say.
    """
    ...
def core_barrier(data: Any, cores: Any, engine: Any = ..., name: Any = None) -> Any:
    """The cores of a group wait for each other; then each sees the others' writes to `data`.

    It orders only accesses to `data`, and instructions that wait for these: see trnsim.hazards.

    Note:
        AWS publishes no cost; it is assumed.
    """
    ...
dge_mode = _DgeMode
def dma_compute(dst: Any, srcs: Any, reduce_op: Any, scales: Any = None, unique_indices: Any = True, oob_mode: Any = ..., name: Any = None) -> Any:
    """``dst = srcs[0] + srcs[1] + ...``, up to 16 sources, in float32 and rounded once.

    With a vector index it is a read-modify-write of two sources: a scatter,
    ``dst(HBM)[indices] += src(SBUF)``, or a gather, ``dst(SBUF) += src(HBM)[indices]``.
    """
    ...
def dma_copy(dst: Any, src: Any, priority: Any = None, oob_mode: Any = ..., dge_mode: Any = ..., engine: Any = ..., name: Any = None) -> Any:
    """``dst = src`` between HBM and SBUF, through float32 where the dtypes differ.

    A vector index gathers rows of src or scatters to rows of dst. With oob_mode=skip the rows of
    dst whose index is out of bounds keep their values.
    """
    ...
dma_engine = _DmaEngine
def dma_transpose(dst: Any, src: Any, axes: Any = None, priority: Any = None, dge_mode: Any = ..., oob_mode: Any = ..., name: Any = None) -> Any:
    """``dst = src.transpose(axes)``: (1, 0), (2, 1, 0) or (3, 1, 2, 0), by the rank of src.

    With a vector index the rows of src are gathered first, by indices that are read column by
    column. A row of src becomes an element along the last axis of dst; with oob_mode=skip the
    elements whose index is out of bounds keep their values.

    Note:
        AWS's page omits dge_mode none; nki-dge.rst and public kernels have it.
    """
    ...
def dropout(dst: Any, data: Any, prob: Any, name: Any = None) -> Any:
    """``dst = 0 with probability prob, else data``; the other elements are not scaled.

    `prob` is a number in [0, 1] or a [P, 1] tile; elements are copied bit for bit.

    Note:
        The distribution is the chip's, the bits are not: `trnsim.isa.numerics.xorwow` lists what
        AWS leaves open.
    """
    ...
engine = _Engine
def exponential(dst: Any, src: Any, max_value: Any = 0.0, reduce_res: Any = None, reduce_cmd: Any = ..., reduce_init: Any = 0.0, name: Any = None) -> Any:
    """``dst = exp(src - max_value)``; ``reduce_res = sum(dst)`` along the free axes.

    `max_value` is a number or a float32 [P, 1] tile. The sum is of the float32 results, before they
    are rounded to dst. Without `reduce_res` it stays in the accumulator registers.

    Note:
        AWS does not say that the sum is taken before rounding, nor the order in which a lane adds.
        A `reduce_cmd` of idle leaves the accumulator registers undefined.
    """
    ...
def get_nc_sub_version() -> Any:
    """The revision of the silicon within its generation: 0, the first."""
    ...
def get_nc_version() -> Any:
    """The generation of the core that the kernel runs on."""
    ...
gpsimd_engine: _Engine
def iota(dst: Any, pattern: Any, offset: Any = 0, channel_multiplier: Any = 0, name: Any = None) -> Any:
    """``dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x``.

    dst is [P, F] with F the product of the pattern's lengths. `offset` and `channel_multiplier` are
    numbers or registers. The int32 values are cast once to the dtype of `dst`.

    Note:
        Values beyond 32 bits wrap around; AWS says only that they have 32 bits.
    """
    ...
def local_gather(dst: Any, src_buffer: Any, index: Any, num_elem_per_idx: Any = 1, num_valid_indices: Any = None, name: Any = None) -> Any:
    """``dst[p, i * e + j] = src_buffer[p, indices[i] + j]``, with the indices of p's GpSimd core.

    dst is [P, n * e], src_buffer [P, F], index [P, I] of uint16, where e is `num_elem_per_idx` and
    n is `num_valid_indices`, by default 16 * I. The indices of a GpSimd core are those in its 16
    partitions of `index`, column by column. An index counts elements, not groups of e elements.
    """
    ...
matmul_perf_mode = _MatmulPerfMode
def max8(dst: Any, src: Any, name: Any = None) -> Any:
    """``dst = the 8 largest values of src, descending``, duplicates kept: [P, 8].

    Note:
        The order of NaN is not documented; NaN is refused. AWS's older formula is below MIN_II for
        few elements; MIN_II is the minimum here.
    """
    ...
def memset(dst: Any, value: Any, engine: Any = ..., name: Any = None) -> Any:
    """``dst = value`` in every element, rounded once to the dtype of `dst`.

    Note:
        NKI 0.3 refuses a float for an integer tile. A float zero is legal here: AWS's own library
        passes it for scales (nki-library 2.29, gate_up_projection_mx.py).
    """
    ...
def nc_find_index8(dst: Any, data: Any, vals: Any, name: Any = None) -> Any:
    """``dst[:, j] = index of vals[:, j] in data`` along the flattened free axis: [P, 8].

    The k-th of equal values finds the k-th occurrence. A value that does not occur, or not that
    often, gives an index of all ones.
    """
    ...
def nc_match_replace8(dst: Any, data: Any, vals: Any, imm: Any, dst_idx: Any = None, name: Any = None) -> Any:
    """``dst = data with the first occurrence of each of vals replaced by imm``.

    The columns of vals are searched from the last to the first, so that of equal values the last
    finds the first occurrence. ``dst_idx[:, j]`` is the index where vals[:, j] was found: [P, 8].

    Note:
        The limits on data and vals, and that the index of a missing value is undefined, are from
        SDK 2.26; today's page has neither. The older price reads min(MIN_II, N) and is taken as
        max(MIN_II, N).
    """
    ...
def nc_matmul(dst: Any, stationary: Any, moving: Any, is_stationary_onezero: Any = False, is_moving_onezero: Any = False, is_transpose: Any = False, accumulate: Any = None, tile_position: Any = (), tile_size: Any = (), perf_mode: Any = ..., name: Any = None) -> Any:
    """``dst (+)= stationary.T @ moving``, accumulated in float32.

    The stationary tile [K, M] is loaded into the array, the moving tile [K, N] streams through it.
    With accumulate=None the first matmul onto each element of dst overwrites it, later ones add.
    With perf_mode=double_row (FP8) the tiles are [K, 2, M] and [K, 2, N], contracted over both
    K and 2. With is_transpose=True the moving tile is an identity matrix, and from v3 on
    ``dst = stationary.T`` bit for bit.

    Note:
        AWS's page describes column tiles, but then restricts the parameters to column 0 and size
        128; column tiles are legal here. The result of is_transpose with another matrix or with
        accumulate=True is not documented, so both are refused. The order in which the array adds
        is not documented.
    """
    ...
def nc_matmul_mx(dst: Any, stationary: Any, moving: Any, stationary_scale: Any, moving_scale: Any, tile_position: Any = None, tile_size: Any = None, accumulate: Any = None, name: Any = None) -> Any:
    """``dst (+)= (stationary * scale).T @ (moving * scale)``, contracted over 4 K elements.

    Stationary [K, M] and moving [K, N] have packed elements of four FP8 or FP4 numbers; scales are
    laid out as by quantize_mx. Accumulation is as in nc_matmul.
    """
    ...
def nc_n_gather(dst: Any, data: Any, indices: Any, name: Any = None) -> Any:
    """``dst[p, i] = data[p, indices[p, i]]``, with the free axes of `data` flattened.

    dst and indices (uint32) are [P, I], data is [P, F].
    """
    ...
def nc_stream_shuffle(dst: Any, src: Any, shuffle_mask: Any, name: Any = None) -> Any:
    """``dst[q, i] = src[q, shuffle_mask[i]]`` for partition i of each quadrant q of 32.

    A mask value of 255 leaves the partition of `dst` as it is. `dst` may be `src`. Only partitions
    that the mask names are read, and only those that it does not keep are written.
    """
    ...
def nc_transpose(dst: Any, data: Any, engine: Any = ..., name: Any = None) -> Any:
    """``dst = data.T`` between the partition axis and the flattened free axes.

    The Tensor Engine does up to [128, 128] from SBUF to PSUM, the Vector Engine up to [32, 32].
    The Tensor Engine of v2 multiplies by an identity matrix, so one NaN or infinity spreads over
    its row of dst; all others move bits. From v3 on the Tensor Engine writes FP8 as 16 bits:
    elements of dst that lie two bytes apart get a zero upper byte.
    """
    ...
nc_version = _NcVersion
def nonzero_with_count(dst: Any, src: Any, index_offset: Any = 0, padding_val: Any = -1, name: Any = None) -> Any:
    """``dst = indices of the nonzero elements of src + index_offset, padding, and their number``.

    src is [P, T], dst [P, T + 1]. Only partitions 0, 16, 32, ... are read and written: each GpSimd
    core works on the first of its 16.
    """
    ...
oob_mode = _OobMode
def quantize_mx(dst: Any, src: Any, dst_scale: Any, name: Any = None) -> Any:
    """``dst, dst_scale = MXFP8(src)``, one scale per 8 partitions x 4 elements of src [P, F].

    The scale is ``2**(floor(log2(largest magnitude)) - (Emax - 1))``, or 2**-127 if all are zero;
    dst [P, F / 4] packs four elements into one. Rows of dst_scale between the scales keep their
    contents, so that further scales can be packed there, or become zero if unwritten (nki-library,
    test_quantize_to_mx.py: zero padding).

    Note:
        The block scale is twice that of the OCP spec, as AWS documents; before NKI 0.5 it is that
        of the OCP spec. Groups with an infinity or NaN are not documented, so they are refused.
    """
    ...
def rand2(dst: Any, min: Any, max: Any, name: Any = None) -> Any:
    """``dst = min + u * (max - min)``, u uniform in [0, 1), in float32.

    `min` and `max` are numbers or [P, 1] tiles; an integer dst is rounded to nearest even.

    Note:
        The distribution is the chip's, the bits are not: `trnsim.isa.numerics.xorwow` lists what
        AWS leaves open.
    """
    ...
def rand_get_state(dst: Any, engine: Any = ..., name: Any = None) -> Any:
    """``dst = generator states of an engine's lanes``, one partition per lane.

    dst is [P, 6] for GpSimd, [P, 24] for the Vector Engine.
    """
    ...
def rand_set_state(src_seeds: Any, engine: Any = ..., name: Any = None) -> Any:
    """``generator states of an engine's lanes = src_seeds``, one partition per lane.

    src_seeds is [P, 6] for GpSimd, [P, 24] for the Vector Engine.
    """
    ...
def range_select(dst: Any, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any, reduce_cmd: Any = ..., reduce_res: Any = None, reduce_op: Any = ..., range_start: Any = 0, on_false_value: Any = -3.4028234663852886e+38, name: Any = None) -> Any:
    """``dst = on_true where (i <comp_op0> bound0) and (i <comp_op1> bound1) else FP32_MIN``.

    ``i`` is `range_start` plus the index along the free axis; bounds are float32 [P, 1] tiles.
    ``reduce_res = max(dst)`` along F, of the float32 values before they are rounded to dst.
    """
    ...
def reciprocal(dst: Any, data: Any, name: Any = None) -> Any:
    """``dst = 1 / data``, in float32."""
    ...
reduce_cmd = _ReduceCmd
def register_alloc(x: Any = None, name: Any = None) -> Any:
    """A new register, holding `x` if given."""
    ...
def register_load(dst: Any, src: Any, name: Any = None) -> Any:
    """``dst = src`` for a register and a tensor of one element in HBM or SBUF.

    Note:
        AWS publishes no cost of registers; one step of a sequencer is assumed.
    """
    ...
def register_move(dst: Any, src: Any, name: Any = None) -> Any:
    """``dst = src`` for a register and an integer or another register."""
    ...
def register_store(dst: Any, src: Any, name: Any = None) -> Any:
    """``dst = src`` for a tensor of one element in HBM or SBUF and a register."""
    ...
def rng(dst: Any, engine: Any = ..., name: Any = None) -> Any:
    """``dst = 32 random bits per element``; smaller integers keep the low bits.

    Note:
        The distribution is the chip's, the bits are not: `trnsim.isa.numerics.xorwow` lists what
        AWS leaves open.
    """
    ...
scalar_engine: _Engine
def scalar_load(src: Any) -> Any:
    """The element of `src` [1, 1] in HBM or SBUF, int32 or int64, as a scalar of its dtype.

    Raises:
        IllegalInstruction: for another shape, memory or dtype; unsigned formats are refused too.

    Source: nki.isa.scalar_load.
    """
    ...
def scalar_store(dst: Any, value: Any) -> Any:
    """``dst = value`` for a tensor [1, 1] in HBM or SBUF of the scalar's own dtype.

    Raises:
        IllegalInstruction: for another dtype, and for a Python integer.

    Source: nki.isa.scalar_store.
    """
    ...
def scalar_tensor_tensor(dst: Any, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any, reverse0: Any = False, reverse1: Any = False, name: Any = None) -> Any:
    """``dst = (data <op0> operand0) <op1> operand1`` with a tile operand1 of the size of data.

    `operand0`, a number or a [P, 1] tile, is broadcast along the free axis; arithmetic is float32.
    `reverse0` and `reverse1` swap the two sides of an operator.
    """
    ...
def select_reduce(dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = None, reduce_cmd: Any = ..., reduce_op: Any = ..., reverse_pred: Any = False, name: Any = None) -> Any:
    """``dst = on_true where predicate != 0 else on_false``; ``reduce_res = max(dst)`` along F.

    `on_false` is a number or a [P, 1] tile. `reverse_pred` swaps the two sides.

    Note:
        A bool_ predicate is not in AWS's list, but AWS's own test passes one. A `reduce_cmd` of
        idle leaves the accumulator registers undefined.
    """
    ...
def sendrecv(src: Any, dst: Any, send_to_rank: Any, recv_from_rank: Any, pipe_id: Any, dma_engine: Any = ..., name: Any = None) -> Any:
    """``dst = src of core recv_from_rank``, while this core's src goes to core send_to_rank.

    Exchanges with one `pipe_id` proceed together; their cores form a ring in which each core sends
    to the next.
    """
    ...
def sequence_bounds(dst: Any, segment_ids: Any, name: Any = None) -> Any:
    """``dst[0, 0, i], dst[0, 1, i] = start, end of the segment of element i``.

    segment_ids is [1, F], dst [1, 2, F]. A segment is a run of equal ids. Its end is exclusive:
    nisa.range_select takes such ranges [start, end). Padding (id 0) has F as its start and -1 as
    its end: an empty range.
    """
    ...
def set_rng_seed(src_seeds: Any, name: Any = None) -> Any:
    """``Vector Engine's generators of all lanes = seed``, where src_seeds is [1, 1], of 32 bits."""
    ...
def tensor_copy(dst: Any, src: Any, engine: Any = ..., name: Any = None) -> Any:
    """``dst = src``, bit for bit where the dtypes are equal, else through float32."""
    ...
def tensor_copy_dynamic_dst(dst: Any, src: Any, engine: Any = ..., name: Any = None) -> Any:
    """`tensor_copy` to a `dst` at a dynamic offset. Source: the stub of nki.isa of v2.27."""
    ...
def tensor_copy_dynamic_src(dst: Any, src: Any, engine: Any = ..., name: Any = None) -> Any:
    """`tensor_copy` of a `src` at a dynamic offset. Source: the stub of nki.isa of v2.27."""
    ...
def tensor_copy_predicated(dst: Any, src: Any, predicate: Any, reverse_pred: Any = False, name: Any = None) -> Any:
    """``dst = src where predicate != 0``; elsewhere `dst` keeps its elements.

    `src` is a tile of the dtype of `dst`, copied bit for bit, or a number. `reverse_pred` copies
    where the predicate is 0. Elements that dst keeps need not have been written.

    Note:
        A bool_ predicate is not in AWS's list, but AWS's own test passes one.
    """
    ...
tensor_engine: _Engine
def tensor_partition_reduce(dst: Any, op: Any, data: Any, name: Any = None) -> Any:
    """``dst = reduce(op, data) over the partition axis``.

    dst is [1, F], data [P, F]; both in SBUF, as GpSimd cannot access PSUM. Arithmetic is float32.
    """
    ...
def tensor_reduce(dst: Any, op: Any, data: Any, axis: Any, negate: Any = False, keepdims: Any = False, name: Any = None) -> Any:
    """``dst = reduce(op, data, axis)`` over the last free axes; negated with `negate`.

    Note:
        The order in which a lane adds is not documented; here it is numpy's.
    """
    ...
def tensor_scalar(dst: Any, data: Any, op0: Any, operand0: Any = None, reverse0: Any = False, op1: Any = None, operand1: Any = None, reverse1: Any = False, engine: Any = ..., name: Any = None) -> Any:
    """``dst = (data <op0> operand0) <op1> operand1`` with operands broadcast along the free axis.

    Operands are numbers or [P, 1] tiles; arithmetic is float32. `reverse0` and `reverse1` swap the
    two sides of an operator; the operators `None` and `nl.bypass` pass the data through.

    Note:
        AWS lists the Scalar Engine's operators for trn2; they are assumed for every generation. AWS
        excludes indirect views where the operator matches an integer address calculation, without
        saying which ones do; nothing is refused for that.
    """
    ...
def tensor_scalar_cumulative(dst: Any, src: Any, op0: Any, op1: Any, imm0: Any, imm1: Any = None, reduce_cmd: Any = ..., name: Any = None) -> Any:
    """``dst[:, i] = reg = (src[:, i] <op0> imm0) <op1> reg``, in float32.

    The register starts as the identity of op1 (reset_reduce), as `imm1` (load_reduce) or with the
    value left by an earlier instruction (reduce). `imm0` and `imm1` are numbers or [P, 1] tiles.

    Note:
        AWS's pseudo code has a reverse0 that the signature lacks. Its subtract subtracts the
        register from the value.
    """
    ...
def tensor_scalar_reduce(dst: Any, data: Any, op0: Any, operand0: Any, reduce_op: Any, reduce_res: Any = None, reverse0: Any = False, reduce_cmd: Any = ..., reduce_init: Any = None, reduce_res_negate: Any = False, name: Any = None) -> Any:
    """``dst = data <op0> operand0; reduce_res = reduce(reduce_op, dst)`` along all free axes.

    The float32 results are reduced before they are rounded to dst. Without `reduce_res` the
    reduction stays in the Vector Engine's accumulator registers, for a later instruction.

    Note:
        That the reduction comes before rounding is inferred from range_select, whose page has -inf
        in a bfloat16 dst beside FP32_MIN in a float32 reduce_res. The order in which a lane adds is
        not documented.
    """
    ...
def tensor_tensor(dst: Any, data1: Any, data2: Any, op: Any, engine: Any = ..., name: Any = None) -> Any:
    """``dst = data1 <op> data2``, element by element, computed in float32.

    int32 and uint32 are exact on GpSimd, the default engine for them unless an operand is in PSUM.
    """
    ...
def tensor_tensor_scan(dst: Any, data0: Any, data1: Any, initial: Any, op0: Any, op1: Any, reverse0: Any = False, reverse1: Any = False, name: Any = None) -> Any:
    """``dst[:, i] = (data0[:, i] <op0> dst[:, i-1]) <op1> data1[:, i]``, in float32.

    `initial`, a number or a [P, 1] tile, stands for ``dst[:, -1]``. The value carried from element
    to element is the float32 result before it is rounded to dst. `reverse0` makes data0 the right
    side of op0, `reverse1` makes data1 the left side of op1.
    """
    ...
def topk(val_dst: Any, idx_dst: Any, src: Any, n: Any, name: Any = None) -> Any:
    """``val_dst = the K largest of n values, ascending``; `idx_dst` has their indices.

    val_dst and idx_dst are [P, K], src is [P, F]. Each GpSimd core reads its 16 partitions column
    by column: value i lies in partition i % 16, column i // 16. All 16 partitions receive the
    same result.

    Note:
        AWS does not say which partitions of a core receive the result (here all), nor how equal
        values are ordered (here the one with the lower index counts as larger). The order of NaN is
        not documented; NaN is refused.
    """
    ...
unknown_engine: _Engine
vector_engine: _Engine
