# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.dtypes.formats import Dtype as _Dtype
from trnsim.nki.indexing import DynamicSlice as _DynamicSlice
from trnsim.nki.indexing import MemoryRegion as MemoryRegion
from trnsim.nki.indexing import MemoryRegion as _MemoryRegion
from trnsim.nki.language.dtypes import FloatLimits as _FloatLimits
from trnsim.nki.language.grids.grid import NkiBlockGrid as NkiBlockGrid
from trnsim.nki.language.grids.grid import NkiGrid as NkiGrid
from trnsim.nki.language.grids.grid import NkiTileGrid as NkiTileGrid
from trnsim.nki.language.loops import affine_range as affine_range
from trnsim.nki.language.objects import NKIObject as NKIObject
from trnsim.nki.language.tile_size import TileSize as TileSize
from trnsim.nki.language.tile_size import TileSize as _TileSize
from trnsim.nki.tensor import NkiTensor as NkiTensor
from typing import Any

DType = _Dtype
def abs(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def abs_max(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def abs_min(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def add(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def all(x: Any, axis: Any, dtype: Any = None) -> Any:
    """1 where every element along the last free axes is not zero, else 0."""
    ...
def alloc_blocks(*, tile_shape: Any, block_shape: Any, element_shape: Any, buffer: Any, dtype: Any, address: Any = None, name: Any = '') -> Any:
    """A new uninitialised allocation in blocks: the tiles of `alloc_tiles`, grouped.

    Args:
        tile_shape: as in `alloc_tiles`.
        block_shape: tiles of a block, for each dimension of a tile.
        element_shape: as in `alloc_tiles`.
        buffer: as in `alloc_tiles`.
        dtype: as in `alloc_tiles`.
        address: as in `alloc_tiles`.
        name: as in `alloc_tiles`.

    Raises:
        GridTypeError: as `alloc_tiles`.
        GridValueError: as `alloc_tiles`, and for a block of another rank than a tile.
        GridNotAllocated: as `alloc_tiles`.
        GridOutOfMemory: as `alloc_tiles`.
    """
    ...
def alloc_tiles(*, tile_shape: Any, element_shape: Any, buffer: Any, dtype: Any, address: Any = None, name: Any = '') -> Any:
    """A new uninitialised allocation in tiles.

    Args:
        tile_shape: elements of a tile, for the last dimensions of `element_shape`, at least two;
            on chip the first is the number of partitions.
        element_shape: lengths of the whole tensor; each index of a leading dimension that tiles do
            not cover selects a slab of tiles.
        buffer: nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm.
        dtype: format of the elements.
        address: (first partition, byte offset in the partition), on chip, as of `nl.ndarray`.
        name: a name for messages and reports.

    Raises:
        GridTypeError: for a shape that is no tuple of integers, and a buffer of another type.
        GridValueError: for a length below 1, and for tiles of one dimension or of more than
            `element_shape` has.
        GridNotAllocated: for a tensor that `nl.ndarray` refuses; an AssertionError as well.
        GridOutOfMemory: for a tensor larger than its memory; an AssertionError as well.
    """
    ...
def arctan(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def average(*args: Any, **kwargs: Any) -> Any:
    """An operator such as `nl.add`.

    Passed as `op` it names an ALU operator or activation function; called on tiles it issues the
    instruction that computes it and returns a new SBUF tile.
    """
    ...
bfloat16: _Dtype
def bitwise_and(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def bitwise_or(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def bitwise_xor(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def blocks(source: Any, *, tile_shape: Any = None, block_shape: Any) -> Any:
    """A view of `source` in coordinates of blocks.

    Args:
        source: a tensor, or a grid, of which the selected elements are grouped.
        tile_shape: elements of a tile, as in `tiles`.
        block_shape: tiles of a block, for each dimension of a tile.

    Raises:
        GridTypeError: for another source, and for a shape that is no tuple of integers.
        GridValueError: for a shape that does not tile the source, and a block of another rank.
    """
    ...
bool: _Dtype
bool_: _Dtype
def broadcast_to(x: Any, shape: Any, dtype: Any = None) -> Any:
    """`x` repeated along its dimensions of length 1; `x` itself if the shape is the same.

    Raises:
        IllegalInstruction: for another rank, or a mismatched dimension of length other than 1.
    """
    ...
def bypass(*args: Any, **kwargs: Any) -> Any:
    """An operator such as `nl.add`.

    Passed as `op` it names an ALU operator or activation function; called on tiles it issues the
    instruction that computes it and returns a new SBUF tile.
    """
    ...
def ceil(x: Any, dtype: Any = None) -> Any:
    """The smallest integer that is at least x."""
    ...
def copy(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def cos(x: Any, dtype: Any = None) -> Any:
    """sin(pi / 2 - abs(x)); assumed to reduce its argument as nl.sin does."""
    ...
def device_print(print_prefix: Any, tensor: Any) -> Any:
    """Print a prefix and a tensor's values."""
    ...
def divide(x: Any, y: Any, dtype: Any = None) -> Any:
    """``x * (1 / y)``: the product of x and the reciprocal of y."""
    ...
def dropout(x: Any, rate: Any, dtype: Any = None) -> Any:
    """Each element of x, or zero with probability `rate`, a number or a [P, 1] tile."""
    ...
ds = _DynamicSlice
def dynamic_range(start: Any, stop: Any = None, step: Any = 1) -> Any:
    """A loop on the device: a register for each of range(start, stop, step).

    NKI 0.6 warns of it, NKI 0.7 refuses it. Before NKI 0.4 its variable cannot be the offset of an
    access pattern.

    Raises:
        IllegalInstruction: for a step that is not a positive integer.
        NotModelled: for more turns (iterations) than `register.LONGEST_LOOP`.
    """
    ...
def empty_like(x: Any, dtype: Any = None, buffer: Any = None, name: Any = '') -> Any:
    """A new uninitialised tensor with the shape of `x`, and by default its dtype and buffer."""
    ...
def equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def erf(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def erf_dx(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def exp(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def expand_dims(x: Any, axis: Any) -> Any:
    """A view of `x` with a new dimension of length 1 at `axis`."""
    ...
float16: _Dtype
float32: _Dtype
float4_e2m1fn_x4: _Dtype
float8_e4m3: _Dtype
float8_e4m3fn: _Dtype
float8_e4m3fn_x4: _Dtype
float8_e5m2: _Dtype
float8_e5m2_x4: _Dtype
float8_e8m0fnu: _Dtype
def floor(x: Any, dtype: Any = None) -> Any:
    """The largest integer that is at most x."""
    ...
def fmod(x: Any, y: Any, dtype: Any = None) -> Any:
    """The remainder of x / y with the sign of x; exact, and NaN, for the operands of `mod`."""
    ...
def fori_loop(lower: Any, upper: Any, body_fun: Any, step: Any = 1) -> Any:
    """`body_fun(i)` on the device for each i of range(lower, upper, step).

    i is an NkiScalar of int32, or a VirtualRegister if a bound is one. In NKI 0.6 it is always a
    register, and refuses arithmetic. It is passed by value: writes of the body to it have no effect
    on the loop. Tensors that the body allocates end with the loop.

    Args:
        lower: the first value: an integer, a register or an int32 scalar.
        upper: the end of the values, exclusive; of the same types.
        body_fun: a function of i that returns nothing.
        step: a positive integer that is known when the kernel is compiled.

    Raises:
        IllegalInstruction: for other bounds (such as int64 scalars) and other steps, for a body
            that returns something, and inside nl.no_reorder.
        NotModelled: for more turns than `register.LONGEST_LOOP`.
    """
    ...
fp32: _FloatLimits
def full(shape: Any, fill_value: Any, dtype: Any, buffer: Any = ..., name: Any = '') -> Any:
    """A new tensor filled with a value: on chip by a memset, in HBM by a DMA from a constant."""
    ...
def gather_flattened(data: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Element ``indices[p, i]`` of partition p of `data`, whose free axes are flattened.

    Raises:
        IllegalInstruction: for an axis other than 0.
    """
    ...
def gelu(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def gelu_apprx_sigmoid(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def gelu_apprx_sigmoid_dx(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def gelu_apprx_tanh(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def gelu_dx(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def greater(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def greater_equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
hbm: _MemoryRegion
int16: _Dtype
int32: _Dtype
int64: _Dtype
int8: _Dtype
def invert(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def is_hbm(buffer: Any) -> Any:
    """True if `buffer` is HBM of either kind."""
    ...
def is_on_chip(buffer: Any) -> Any:
    """True if `buffer` is SBUF or PSUM."""
    ...
def is_psum(buffer: Any) -> Any:
    """True if `buffer` is PSUM."""
    ...
def is_sbuf(buffer: Any) -> Any:
    """True if `buffer` is SBUF."""
    ...
def left_shift(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def less(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def less_equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def load(src: Any, dtype: Any = None) -> Any:
    """A new SBUF tile with the values of an HBM tensor."""
    ...
def load_transpose2d(src: Any, dtype: Any = None) -> Any:
    """A new SBUF tile [N, M] with the values of an HBM tensor [M, N], transposed by the DMA.

    More than two dimensions are merged to [M, all others].
    """
    ...
def log(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def logical_and(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def logical_not(x: Any, dtype: Any = None) -> Any:
    """``x xor 1`` on zeros and ones."""
    ...
def logical_or(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def logical_xor(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def matmul(x: Any, y: Any, transpose_x: Any = False) -> Any:
    """``x.T @ y`` in a new PSUM tile, float32.

    Without `transpose_x` it is ``x @ y``, which AWS's compiler refuses.
    """
    ...
def max(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """`nl.sum`, `nl.max`, `nl.min`; as an instruction's `op`, sum is add, max is maximum."""
    ...
def maximum(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def mean(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """The average along the last free axes, summed in float32."""
    ...
def min(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """`nl.sum`, `nl.max`, `nl.min`; as an instruction's `op`, sum is add, max is maximum."""
    ...
def minimum(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def mish(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def mod(x: Any, y: Any, dtype: Any = None) -> Any:
    """The remainder of x / y with the sign of y, in float32: x less a multiple of y.

    It is exact if that multiple is a float32, as all whole numbers below 2**24 are. For larger
    multiples the remainder is off by the rounding of the multiple, and may lie outside 0 to y:
    mod(1e10, 3) is -1021. It is NaN for a y of 0 or infinity, also where numpy's is x or y. The
    sign is that of y unless remainder * y underflows to zero.
    """
    ...
def multiply(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def ndarray(shape: Any, dtype: Any, buffer: Any = ..., name: Any = '', address: Any = None) -> Any:
    """A new uninitialised tensor.

    Args:
        shape: lengths; on chip the first is the number of partitions.
        dtype: element format.
        buffer: nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm.
        name: a name for messages and reports.
        address: (first partition, byte offset in the partition), on chip.

    Raises:
        IllegalInstruction: a shape or dtype that the core does not have.
        NotModelled: an address in HBM (a single integer).
        OutOfMemory: a tensor larger than its memory.
    """
    ...
def negative(x: Any, dtype: Any = None) -> Any:
    """-x."""
    ...
def no_reorder() -> Any:
    """Context in which instructions, also of functions that are called, are issued in order.

    Each engine, and the DMA queues together, start instructions of the block in program order.
    Different engines may still overlap. Values are the same with and without the context.

    Source: nki.language.no_reorder; how-to-scheduling-apis.rst, Using no_reorder.
    """
    ...
def not_equal(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def num_programs(axes: Any = 0) -> Any:
    """The number of cores in the launch grid; 1 on a single core.

    Raises:
        IllegalInstruction: for an axis that no grid has.
    """
    ...
def ones(shape: Any, dtype: Any, buffer: Any = ..., name: Any = '') -> Any:
    """A new tensor of ones."""
    ...
def par_dim(length: Any) -> Any:
    """`length` marked as the partition axis, which since NKI 0.2 is always the first axis."""
    ...
def power(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def prelu(*args: Any, **kwargs: Any) -> Any:
    """An operator such as `nl.add`.

    Passed as `op` it names an ALU operator or activation function; called on tiles it issues the
    instruction that computes it and returns a new SBUF tile.
    """
    ...
private_hbm: _MemoryRegion
def prod(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """`nl.sum`, `nl.max`, `nl.min`; as an instruction's `op`, sum is add, max is maximum."""
    ...
def program_id(axis: Any = 0) -> Any:
    """The index of this core along an axis of the launch grid; 0 on a single core.

    Raises:
        IllegalInstruction: for an axis that no grid has.
    """
    ...
def program_ndim() -> Any:
    """The number of axes of the launch grid; 0 on a single core."""
    ...
psum: _MemoryRegion
def rand(shape: Any, dtype: Any, buffer: Any = ..., name: Any = '') -> Any:
    """A new on-chip tensor of random numbers, uniform in [0, 1).

    It uses rand2 if the core has it, else 24 of the 32 random bits of rng.
    """
    ...
def random_seed(seed: Any) -> Any:
    """Seed the Vector Engine's random numbers from a [1, 1] tile of 32 bits.

    Raises:
        IllegalInstruction: for a number in place of a tile.
    """
    ...
def reciprocal(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def relu(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def right_shift(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def rms_norm(x: Any, w: Any, axis: Any, n: Any, epsilon: Any = 1e-06, dtype: Any = None, compute_dtype: Any = None) -> Any:
    """``x / sqrt(sum(x * x) / n + epsilon) * w``, in float32 or in `compute_dtype`.

    The sum is along `axis`; `n` is the number of its elements.
    """
    ...
def rsqrt(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
sbuf: _MemoryRegion
def sequential_range(start: Any, stop: Any = None, step: Any = 1) -> Any:
    """Python's `range`: every loop over it is unrolled while the kernel is traced."""
    ...
def shared_constant(constant: Any) -> Any:
    """A constant tensor in shared HBM, from an array or a .npy file."""
    ...
shared_hbm: _MemoryRegion
def shared_identity_matrix(n: Any, dtype: Any = ..., dst: Any = None) -> Any:
    """The identity matrix [n, n], loaded from a constant in HBM to `dst` or to a new SBUF tile."""
    ...
def sigmoid(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def sign(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def silu(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def silu_dx(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def sin(x: Any, dtype: Any = None) -> Any:
    """nl.sin. As an instruction's `op` it does not reduce the argument; called on tiles it does."""
    ...
def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> Any:
    """exp(x - max) divided by its sum along the last free axes."""
    ...
def softplus(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def sqrt(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def square(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
def static_range(start: Any, stop: Any = None, step: Any = 1) -> Any:
    """Python's `range`: every loop over it is unrolled while the kernel is traced."""
    ...
def store(dst: Any, value: Any) -> Any:
    """Write an SBUF tile to an HBM tensor.

    Raises:
        IllegalInstruction: for a tile in PSUM, which a DMA cannot read.
    """
    ...
def subtract(x: Any, y: Any, dtype: Any = None) -> Any:
    """A function of two tiles, or of a tile and a number on either side."""
    ...
def sum(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """`nl.sum`, `nl.max`, `nl.min`; as an instruction's `op`, sum is add, max is maximum."""
    ...
def tan(x: Any, dtype: Any = None) -> Any:
    """sin(x) / cos(x); assumed to reduce its argument as nl.sin does."""
    ...
def tanh(x: Any, dtype: Any = None) -> Any:
    """A function of a tile."""
    ...
tfloat32: _Dtype
tile_size: _TileSize
def tiles(source: Any, *, tile_shape: Any = None) -> Any:
    """A view of `source` in coordinates of tiles. If `source` is one block: the block's tiles.

    Args:
        source: a tensor, or a grid, of which the selected elements are tiled.
        tile_shape: elements of a tile, for the last dimensions of `source`; leading
            dimensions stay untiled. With None the tiles of a grid are kept.

    Raises:
        GridTypeError: for another source, and for a shape that is no tuple of integers.
        GridValueError: for a shape that does not tile the source.
    """
    ...
def transpose(x: Any, dtype: Any = None) -> Any:
    """A new PSUM tile with the partition and the free axis of `x` swapped by the Tensor Engine.

    Elements of FP8 are two bytes apart from NeuronCore-v3 on, which writes them as 16 bits.
    """
    ...
def trunc(x: Any, dtype: Any = None) -> Any:
    """The integer part of x."""
    ...
uint16: _Dtype
uint32: _Dtype
uint8: _Dtype
def var(x: Any, axis: Any, dtype: Any = None, keepdims: Any = False) -> Any:
    """The population variance along the last free axes, which are kept with length 1 as in NKI."""
    ...
def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> Any:
    """Elements of x where `condition` is not zero, else of y; either may be a number."""
    ...
def while_loop(init: Any, body_fun: Any) -> Any:
    """`register = body_fun(register)` on the device while the register is not zero.

    The register is passed by value: `init` keeps its value. Tensors that the body allocates end
    with the loop.

    Raises:
        IllegalInstruction: if the body does not return a register.
        NotModelled: if the loop does not end (`register.LONGEST_LOOP`), or for a scalar.
    """
    ...
def zeros(shape: Any, dtype: Any, buffer: Any = ..., name: Any = '') -> Any:
    """A new tensor of zeros."""
    ...
def zeros_like(x: Any, dtype: Any = None, buffer: Any = None, name: Any = '') -> Any:
    """A new tensor of zeros with the shape of `x`, and by default its dtype and buffer."""
    ...
