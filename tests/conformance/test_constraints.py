"""Each documented constraint of each instruction: one input just inside, one just outside.

A row starts from the instruction's usual instance (`trnsim.isa.reference.example`) and changes what
the constraint is about. What needs values (indices out of bounds, ranges of functions), placed
tiles (start partitions, `.indirect()` views, vector offsets) or two cores is in tests/isa.

Source of every row: the instruction's own page of nki.isa, unless the row names another.
"""

import re
from dataclasses import dataclass
from math import prod

import pytest

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT4_E2M1FN_X4,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FN_X4,
    FLOAT8_E5M2,
    FLOAT8_E5M2_X4,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    TFLOAT32,
    UINT8,
    UINT16,
    UINT32,
)
from trnsim.errors import IllegalInstruction, UndefinedBehavior, Unspecified
from trnsim.isa import DgeMode, DmaEngine, Engine, Instruction, MatmulPerfMode, OobMode, ReduceCmd
from trnsim.isa.control.register import VirtualRegister
from trnsim.isa.control.scalar import Scalar
from trnsim.isa.reference.example import Tensor, example, tile
from trnsim.memory import Memory, SnakeIndex, Tile

CORES = {2: NEURONCORE_V2, 3: NEURONCORE_V3, 4: NEURONCORE_V4}
SBUF, PSUM, HBM = (Tensor(memory=memory) for memory in (Memory.SBUF, Memory.PSUM, Memory.HBM))
SCALAR, VECTOR, GPSIMD, TENSOR = Engine.scalar, Engine.vector, Engine.gpsimd, Engine.tensor
ARRAY_OPERANDS = {
    "nc_matmul": ("dst", "stationary", "moving"),
    "nc_matmul_mx": ("dst",),
}
"""What the Tensor Engine gathers and scatters; an MX input only together with its scales."""
REFUSALS = (IllegalInstruction, UndefinedBehavior, Unspecified)


@dataclass(frozen=True)
class Rule:
    """A constraint, an instance that keeps it and one that breaks it, and the cores of both."""

    opcode: str
    says: str
    inside: dict
    outside: dict
    on: int = 3
    outside_on: int = 0

    def __str__(self):
        return f"{self.opcode}: {self.says}"


def rules(opcode, *rows, on=3):
    """Rows of (what the constraint says, inside, outside[, generation])."""
    return [Rule(opcode, *row[:3], *(row[3:] or (on,))) for row in rows]


def since(opcode, generation, says="", **changes):
    """Legal from a generation on, and not on the one before."""
    says = f"{says} from NeuronCore-v{generation} on".strip()
    return Rule(opcode, says, changes, changes, generation, generation - 1)


def of(dtype):
    return Tensor(dtype=dtype)


def shaped(*shape, dtype=None, memory=None):
    return Tensor(shape, memory, dtype)


def mx(**changes):
    """A matmul of scaled tiles: the scales follow K, M and N."""
    lengths = {"K": 128, "M": 128, "N": 512} | {k: v for k, v in changes.items() if k in "KMN"}
    scales = {
        "stationary_scale": shaped(lengths["K"], lengths["M"]),
        "moving_scale": shaped(lengths["K"], lengths["N"]),
    }
    return {**scales, **changes}


def pattern(*lengths, **changes):
    return {"pattern": tuple((1, num) for num in lengths), "F": prod(lengths), **changes}


def small_transposes(axis):
    """A transpose on the Vector Engine as long along `axis` as it takes, and one longer."""
    small = {"P": 32, "F": 32, "dst": SBUF, "engine": VECTOR}
    return [{**small, axis: length} for length in (32, 33)]


def double_row(dtype=FLOAT8_E4M3, halves=2, rows=128, columns=128):
    """A matmul of pairs of FP8."""
    return {
        "perf_mode": MatmulPerfMode.double_row,
        "stationary": shaped(rows, halves, columns, dtype=dtype),
        "moving": shaped(rows, halves, 512, dtype=FLOAT8_E5M2),
        "M": columns,
    }


def tiled(position, size):
    return {"tile_position": position, "tile_size": size}


def small(position, edge=64):
    """A matmul on a square tile of the array."""
    return {"K": min(edge, 32), "M": min(edge, 32), **tiled(position, (edge, edge))}


def loading(value):
    return {"reduce_cmd": ReduceCmd.load_reduce, "reduce_init": value}


def summed(dtype):
    """A reduction into a tile of a dtype."""
    return {
        "reduce_cmd": ReduceCmd.reset_reduce,
        "reduce_res": shaped(128, 1, dtype=dtype),
    }


def on_vector(words):
    return {"engine": VECTOR, "F": words}


def masked(source):
    """A shuffle whose first partition comes from `source`."""
    return {"shuffle_mask": (source, *[0] * 31)}


def by_gpsimd(dtype):
    """An exchange by GpSimd's own DMA of as many elements as it takes, and of one more."""
    return [
        {
            "dma_engine": DmaEngine.gpsimd_dma,
            "src": shaped(128, F, dtype=dtype),
            "dst": shaped(128, F, dtype=dtype),
        }
        for F in (256, 257)
    ]


def hardware(src, dst, dtype=BFLOAT16):
    """A transpose by hardware descriptors."""
    tiles = {"src": shaped(*src, dtype=dtype), "dst": shaped(*dst, dtype=dtype)}
    return {"dge_mode": DgeMode.hwdge, **tiles}


ROW = shaped(128, 512)
ROW_IN_PSUM = shaped(128, 512, memory=Memory.PSUM)
ROW_IN_HBM = shaped(128, 512, memory=Memory.HBM)
A_TILE = tile((128, 1), FLOAT32, Memory.SBUF)
VECTOR_TILE = shaped(128, 1, dtype=FLOAT32)
NARROW_VECTOR = shaped(128, 1, dtype=BFLOAT16)
PAIR = shaped(128, 2, dtype=FLOAT32)
HARDWARE = {"dge_mode": DgeMode.hwdge}
DIRECT = hardware((16, 128), (128, 16))

MOVEMENT = [
    *rules(
        "dma_copy",
        ("equal element counts", {"src": shaped(64, 1024)}, {"src": shaped(128, 511)}),
        ("dst in HBM or SBUF", {"dst": ROW_IN_HBM}, {"dst": ROW_IN_PSUM}),
        ("src in HBM or SBUF", {"src": ROW}, {"src": ROW_IN_PSUM}),
        ("priority up to 3", {"priority": 3}, {"priority": 4}, 4),
        ("priority from 0", {"priority": 0}, {"priority": -1}, 4),
        ("hwdge with equal dtypes", HARDWARE, {**HARDWARE, "dst": shaped(128, 512, dtype=FLOAT32)}),
        (
            "hwdge by the Sync or the Scalar Engine",
            {**HARDWARE, "engine": SCALAR},
            {**HARDWARE, "engine": VECTOR},
        ),
    ),
    since("dma_copy", 4, "priority", priority=0),
    since("dma_copy", 3, "hardware descriptors", **HARDWARE),
    *rules(
        "dma_transpose",
        ("dst in SBUF", {}, {"dst": ROW_IN_HBM}),
        ("equal dtypes", {}, {"dst": shaped(128, 512, dtype=FLOAT16)}),
        ("axes (1, 0) of a matrix", {"axes": (1, 0)}, {"axes": (0, 1)}),
        ("no swdge without indices", DIRECT, {**DIRECT, "dge_mode": DgeMode.swdge}),
        ("hwdge of 16 rows", DIRECT, hardware((32, 128), (128, 32))),
        (
            "hwdge of 1, 2, 4, 8 or 16 rows with more axes",
            hardware((8, 2, 64), (64, 2, 8)),
            hardware((32, 2, 64), (64, 2, 32)),
        ),
        (
            "hwdge of whole blocks of 16",
            hardware((4, 4, 64), (64, 4, 4)),
            hardware((4, 3, 64), (64, 3, 4)),
        ),
        ("hwdge of up to 128 columns", DIRECT, hardware((16, 129), (129, 16))),
        ("hwdge of 2 bytes", DIRECT, hardware((16, 128), (128, 16), FLOAT32)),
        ("oob_mode skip with indices alone", {}, {"oob_mode": OobMode.skip}),
        ("priority up to 3", {"priority": 3}, {"priority": 4}, 4),
    ),
    since("dma_transpose", 4, "priority", priority=0),
    since("dma_transpose", 3, "hardware descriptors", **DIRECT),
    *rules(
        "dma_compute",
        ("up to 16 sources", {"srcs": (ROW,) * 16}, {"srcs": (ROW,) * 17}),
        ("sums alone", {}, {"reduce_op": "maximum"}),
        ("scales of one", {"scales": (1.0, 1.0)}, {"scales": (1.0, 2.0)}),
        ("equal element counts", {}, {"srcs": (ROW, shaped(128, 511))}),
        ("srcs in HBM or SBUF", {"srcs": (ROW, ROW_IN_HBM)}, {"srcs": (ROW, ROW_IN_PSUM)}),
        ("dst in HBM or SBUF", {"dst": ROW_IN_HBM}, {"dst": ROW_IN_PSUM}),
    ),
    *rules(
        "sendrecv",
        ("src in SBUF", {}, {"src": PSUM}),
        ("dst in SBUF", {}, {"dst": PSUM}),
        ("to rank 0 or 1", {"send_to_rank": 1}, {"send_to_rank": 2}),
        ("from rank 0 or 1", {"recv_from_rank": 0}, {"recv_from_rank": -1}),
        ("one dtype", {}, {"dst": of(FLOAT16)}),
        ("one shape", {}, {"dst": shaped(128, 256)}),
        ("1024 bytes of 32 bits by GpSimd", *by_gpsimd(FLOAT32)),
        ("512 bytes of 16 bits by GpSimd", *by_gpsimd(BFLOAT16)),
        ("256 bytes of 8 bits by GpSimd", *by_gpsimd(UINT8)),
    ),
    since("sendrecv", 3),
    *rules(
        "core_barrier",
        ("both cores", {"cores": (0, 1)}, {"cores": (0,)}),
        ("in HBM", {}, {"data": shaped(128, 512, memory=Memory.SBUF)}),
    ),
    since("core_barrier", 3),
    *rules(
        "register_load",
        ("one element", {"src": shaped(1, 1, dtype=INT32)}, {"src": shaped(1, 2, dtype=INT32)}),
        (
            "from HBM or SBUF",
            {"src": shaped(1, 1, dtype=INT32, memory=Memory.HBM)},
            {"src": shaped(1, 1, dtype=INT32, memory=Memory.PSUM)},
        ),
        ("into a register", {}, {"dst": 1}),
    ),
    *rules(
        "register_store",
        ("one element", {"dst": shaped(1, dtype=INT32)}, {"dst": shaped(2, dtype=INT32)}),
        (
            "to HBM or SBUF",
            {"dst": shaped(1, 1, dtype=INT32, memory=Memory.HBM)},
            {"dst": shaped(1, 1, dtype=INT32, memory=Memory.PSUM)},
        ),
        ("from a register", {}, {"src": 1}),
    ),
    *rules(
        "scalar_load",
        (
            "a signed format",
            {"src": shaped(1, 1, dtype=INT32)},
            {"src": shaped(1, 1, dtype=UINT32)},
        ),
        ("one element", {"src": shaped(1, 1, dtype=INT32)}, {"src": shaped(1, 2, dtype=INT32)}),
        (
            "from HBM or SBUF",
            {"src": shaped(1, 1, dtype=INT32, memory=Memory.HBM)},
            {"src": shaped(1, 1, dtype=INT32, memory=Memory.PSUM)},
        ),
    ),
    *rules(
        "scalar_store",
        ("of a scalar", {}, {"value": 5}),
        ("of the scalar's width", {}, {"value": Scalar(INT64)}),
        ("one element", {"dst": shaped(1, 1, dtype=INT32)}, {"dst": shaped(1, 2, dtype=INT32)}),
    ),
    *rules(
        "register_move",
        ("from an integer or a register", {"src": VirtualRegister(1)}, {"src": 1.5}),
        ("into a register", {}, {"dst": 1}),
    ),
    *rules("register_alloc", ("an integer or nothing", {"x": 5}, {"x": 5.0})),
]

COPIES = [
    *rules(
        "tensor_copy",
        ("equal partitions", {}, {"src": shaped(64, 512)}),
        ("equal elements a partition", {"src": shaped(128, 2, 256)}, {"src": shaped(128, 511)}),
        ("src in SBUF or PSUM", {"src": PSUM}, {"src": ROW_IN_HBM}),
        ("dst in SBUF or PSUM", {"dst": PSUM}, {"dst": ROW_IN_HBM}),
        ("GpSimd reads no PSUM", {"engine": GPSIMD}, {"engine": GPSIMD, "src": PSUM}),
        ("GpSimd writes no PSUM", {"engine": GPSIMD}, {"engine": GPSIMD, "dst": PSUM}),
        ("Vector, Scalar or GpSimd Engine", {"engine": SCALAR}, {"engine": TENSOR}),
    ),
    since("tensor_copy", 3, "on the Scalar Engine", engine=SCALAR),
    *rules(
        "memset",
        (
            "an int for integers (release notes of NKI 0.3)",
            {"dst": of(INT32), "value": 2},
            {"dst": of(INT32), "value": 2.0},
        ),
        ("a number", {"value": 2.0}, {"value": A_TILE}),
        ("GpSimd writes no PSUM", {"engine": GPSIMD}, {"engine": GPSIMD, "dst": PSUM}),
        ("Vector or GpSimd Engine", {"engine": VECTOR}, {"engine": SCALAR}),
        *[
            ("zero for packed dtypes", {"dst": of(t)}, {"dst": of(t), "value": 1}, 4)
            for t in (FLOAT8_E4M3FN_X4, FLOAT8_E5M2_X4, FLOAT4_E2M1FN_X4)
        ],
    ),
    *rules(
        "tensor_copy_predicated",
        ("equal partitions", {}, {"src": shaped(64, 512)}),
        ("equal elements a partition", {}, {"predicate": shaped(128, 256)}),
        ("src and dst of one dtype", {}, {"src": of(FLOAT32)}),
        *[
            ("an unsigned predicate", {"predicate": of(good)}, {"predicate": of(bad)})
            for good, bad in ((UINT8, INT8), (UINT16, INT16), (UINT32, FLOAT32))
        ],
        ("at most one input in PSUM", {"src": PSUM}, {"src": PSUM, "predicate": PSUM}),
    ),
    *rules(
        "nc_transpose",
        ("equal dtypes", {}, {"dst": Tensor(None, Memory.PSUM, FLOAT32)}),
        ("up to 128 rows on the Tensor Engine", {"P": 128}, {"P": 129}),
        ("up to 128 columns on the Tensor Engine", {"F": 128}, {"F": 129}),
        ("Tensor Engine into PSUM", {"engine": TENSOR}, {"engine": TENSOR, "dst": SBUF}),
        ("Tensor Engine from SBUF", {"engine": TENSOR}, {"engine": TENSOR, "data": PSUM}),
        ("up to 32 rows on the Vector Engine", *small_transposes("P")),
        ("up to 32 columns on the Vector Engine", *small_transposes("F")),
        ("Tensor or Vector Engine", {"engine": TENSOR}, {"engine": SCALAR}),
    ),
    *rules(
        "nc_stream_shuffle",
        ("equal dtypes", {}, {"src": of(FLOAT16)}),
        ("equal elements a partition", {}, {"src": shaped(128, 256)}),
        ("a mask of 32", {}, {"shuffle_mask": (0,) * 31}),
        ("sources within a quadrant", masked(31), masked(32)),
        ("255 keeps a partition", masked(255), masked(254)),
    ),
    *rules(
        "local_gather",
        ("a multiple of 16 partitions", {"P": 112}, {"P": 120}),
        ("indices beside the data", {}, {"index": shaped(112, 32)}),
        ("uint16 indices", {}, {"index": of(UINT32)}),
        ("no cast", {}, {"dst": of(FLOAT32)}),
        (
            "1 to 32 elements an index",
            {"num_elem_per_idx": 32, "N": 16384},
            {"num_elem_per_idx": 3},
        ),
        ("up to 4096 indices a core", {"I": 256, "N": 4096}, {"I": 257, "N": 4112}),
        (
            "no more indices than there are",
            {"num_valid_indices": 512},
            {"num_valid_indices": 513, "N": 513},
        ),
        ("in SBUF", {}, {"src_buffer": PSUM}),
    ),
    *rules(
        "nc_n_gather",
        ("uint32 indices", {}, {"indices": of(UINT16)}),
        ("no cast", {}, {"dst": of(FLOAT32)}),
        ("as many results as indices", {}, {"dst": shaped(128, 31)}),
        ("equal partitions", {}, {"data": shaped(64, 512)}),
        ("in SBUF", {}, {"data": PSUM}),
    ),
]

MATMULS = [
    *rules(
        "nc_matmul",
        ("dst in PSUM", {}, {"dst": SBUF}),
        ("stationary in SBUF", {}, {"stationary": PSUM}),
        ("moving in SBUF", {}, {"moving": PSUM}),
        ("float inputs", {"stationary": of(FLOAT16)}, {"stationary": of(INT8)}),
        ("float32 dst", {}, {"dst": of(BFLOAT16)}),
        ("float32 or bfloat16 dst", {"dst": of(BFLOAT16)}, {"dst": of(FLOAT16)}, 4),
        (
            "float32 with float32 or tfloat32",
            {"stationary": of(FLOAT32), "moving": of(TFLOAT32)},
            {"stationary": of(FLOAT32)},
        ),
        (
            "tfloat32 with float32 or tfloat32",
            {"stationary": of(TFLOAT32), "moving": of(FLOAT32)},
            {"stationary": of(TFLOAT32)},
        ),
        (
            "one of the two e4m3",
            {"stationary": of(FLOAT8_E4M3FN), "moving": of(FLOAT8_E5M2)},
            {"stationary": of(FLOAT8_E4M3FN), "moving": of(FLOAT8_E4M3)},
            4,
        ),
        ("one contraction", {}, {"moving": shaped(64, 512)}),
        ("K up to 128", {"K": 128}, {"K": 129}),
        ("M up to 128", {"M": 128}, {"M": 129}),
        ("N up to 512", {"N": 512}, {"N": 513}),
        ("N up to 4096 for float32", {"N": 4096}, {"N": 4097}, 4),
        (
            "N up to 8192 for bfloat16",
            {"N": 8192, "dst": of(BFLOAT16)},
            {"N": 8193, "dst": of(BFLOAT16)},
            4,
        ),
        ("double_row of FP8", double_row(), double_row(FLOAT16)),
        ("double_row splits the contraction in 2", double_row(), double_row(halves=3)),
        (
            "double_row without column tiles",
            {**double_row(rows=64), **tiled((0, 0), (64, 128))},
            {**double_row(columns=64), **tiled((0, 0), (128, 64))},
        ),
        ("position and size together", tiled((0, 0), (128, 128)), {"tile_size": (128, 128)}),
        ("rows from a multiple of their size", small((64, 0)), small((32, 0))),
        ("columns from a multiple of their size", small((0, 64)), small((0, 32))),
        ("rows that start within the array", small((64, 0)), small((128, 0))),
        ("columns that start within the array", small((0, 64)), small((0, 128))),
        ("a stationary tile as long as its tile", small((0, 0)), {**small((0, 0)), "K": 65}),
        ("a stationary tile as wide as its tile", small((0, 0)), {**small((0, 0)), "M": 65}),
        ("no rows by 16", small((0, 0), 32), small((0, 0), 16)),
    ),
    since("nc_matmul", 4, "float8_e4m3fn", stationary=of(FLOAT8_E4M3FN)),
    since("nc_matmul", 4, "bfloat16 results", dst=of(BFLOAT16)),
    since("nc_matmul", 3, "double_row", **double_row()),
    since("nc_matmul", 3, "tiles of 32 rows", **small((0, 0), 32)),
    *rules(
        "nc_matmul_mx",
        ("dst in PSUM", {}, {"dst": SBUF}),
        ("inputs in SBUF", {}, {"moving": PSUM}),
        ("scales in SBUF", {}, {"moving_scale": shaped(128, 512, memory=Memory.PSUM)}),
        ("packed inputs", {"moving": of(FLOAT4_E2M1FN_X4)}, {"moving": of(FLOAT8_E5M2)}),
        (
            "scales of 8 bits",
            {"moving_scale": shaped(128, 512, dtype=UINT8)},
            {"moving_scale": shaped(128, 512, dtype=INT8)},
        ),
        ("float32 or bfloat16 dst", {"dst": of(BFLOAT16)}, {"dst": of(FLOAT16)}),
        ("K a multiple of 32", mx(K=96), mx(K=80)),
        ("K up to 128", mx(K=128), mx(K=160)),
        ("one contraction", {}, {"moving": shaped(64, 512)}),
        ("M even", mx(M=126), mx(M=127)),
        ("M up to 128", mx(M=128), mx(M=130)),
        ("N up to 4096 for float32", mx(N=4096), mx(N=4097)),
        (
            "N up to 8192 for bfloat16",
            mx(N=8192, dst=of(BFLOAT16)),
            mx(N=8193, dst=of(BFLOAT16)),
        ),
        (
            "tiles of rows alone",
            mx(K=64, **tiled((64, 0), (64, 128))),
            mx(K=64, M=64, **tiled((64, 0), (64, 64))),
        ),
        (
            "rows from a multiple of their size",
            mx(K=64, **tiled((64, 0), (64, 128))),
            mx(K=64, **tiled((32, 0), (64, 128))),
        ),
        ("rows that fit", mx(K=64, **tiled((0, 0), (64, 128))), mx(**tiled((0, 0), (64, 128)))),
        ("position and size together", mx(**tiled((0, 0), (128, 128))), {"tile_size": (128, 128)}),
        on=4,
    ),
    since("nc_matmul_mx", 4),
    *rules(
        "quantize_mx",
        ("src in SBUF", {}, {"src": PSUM}),
        ("dst in SBUF", {}, {"dst": PSUM}),
        ("float16 or bfloat16", {"src": of(FLOAT16)}, {"src": of(FLOAT32)}),
        ("packed FP8", {"dst": of(FLOAT8_E4M3FN_X4)}, {"dst": of(FLOAT4_E2M1FN_X4)}),
        (
            "scales of 8 bits",
            {"dst_scale": shaped(128, 128, dtype=UINT8)},
            {"dst_scale": shaped(128, 128, dtype=UINT16)},
        ),
        (
            "partitions a multiple of 32",
            {"P": 96, "dst_scale": shaped(96, 128)},
            {"P": 80, "dst_scale": shaped(80, 128)},
        ),
        ("elements a multiple of 4", {"F": 512}, {"F": 510}),
        ("a quarter in dst", {"D": 128}, {"D": 127}),
        on=4,
    ),
    since("quantize_mx", 4),
]

WHOLE = {"dst": of(INT32), "data": of(INT32)}
WHOLES = {"dst": of(INT32), "data1": of(INT32), "data2": of(INT32)}

ELEMENTWISE = [
    *rules(
        "tensor_tensor",
        ("equal partitions", {}, {"data2": shaped(64, 512)}),
        ("equal elements a partition", {"data2": shaped(128, 2, 256)}, {"data2": shaped(128, 511)}),
        ("a binary operator", {"op": "subtract"}, {"op": "abs"}),
        (
            "bitvec operators of integers",
            {**WHOLES, "op": "bitwise_and"},
            {**WHOLES, "op": "bitwise_and", "data2": of(FLOAT32)},
        ),
        ("at most one input in PSUM", {"data1": PSUM}, {"data1": PSUM, "data2": PSUM}),
        ("powers in SBUF", {"op": "power"}, {"op": "power", "data1": PSUM}),
        ("powers on GpSimd", {"op": "power", "engine": GPSIMD}, {"op": "power", "engine": VECTOR}),
        ("GpSimd reads no PSUM", {"engine": GPSIMD}, {"engine": GPSIMD, "data2": PSUM}),
        ("Vector or GpSimd Engine", {"engine": GPSIMD}, {"engine": SCALAR}),
    ),
    *rules(
        "tensor_scalar",
        ("one element a partition", {"operand0": VECTOR_TILE}, {"operand0": PAIR}),
        ("operands of as many partitions", {}, {"operand0": shaped(64, 1, dtype=FLOAT32)}),
        ("operands of float32", {"operand0": VECTOR_TILE}, {"operand0": NARROW_VECTOR}),
        (
            "a second operand of float32",
            {"op1": "add", "operand1": VECTOR_TILE},
            {"op1": "add", "operand1": NARROW_VECTOR},
        ),
        ("no second operand without op1", {}, {"operand1": 1.0}),
        (
            "both bitvec or both arithmetic",
            {**WHOLE, "op0": "bitwise_and", "operand0": 1, "op1": "bitwise_or", "operand1": 2},
            {**WHOLE, "op0": "bitwise_and", "operand0": 1, "op1": "add", "operand1": 2},
        ),
        (
            "bitvec operators of integers",
            {**WHOLE, "op0": "bitwise_and", "operand0": 1},
            {"op0": "bitwise_and", "operand0": 1},
        ),
        *[
            (
                f"bitvec operators not on the {engine.label}",
                {**WHOLE, "op0": "bitwise_and", "operand0": 1, "engine": VECTOR},
                {**WHOLE, "op0": "bitwise_and", "operand0": 1, "engine": engine},
            )
            for engine in (SCALAR, GPSIMD)
        ],
        ("multiply on the Scalar Engine", {"engine": SCALAR}, {"engine": SCALAR, "op0": "maximum"}),
        (
            "multiply, then add on the Scalar Engine",
            {"engine": SCALAR, "op1": "add", "operand1": 1.0},
            {"engine": SCALAR, "op1": "subtract", "operand1": 1.0},
        ),
        (
            "add alone on the Scalar Engine",
            {"engine": SCALAR, "op0": "add"},
            {"engine": SCALAR, "op0": "add", "op1": "add", "operand1": 1.0},
        ),
        (
            "roots on GpSimd",
            {"engine": GPSIMD, "op0": "rsqrt", "operand0": None},
            {"engine": GPSIMD},
        ),
        ("None or 0 for a unary operator", {"op0": "abs", "operand0": 0}, {"op0": "abs"}),
        ("Vector, Scalar or GpSimd Engine", {}, {"engine": TENSOR}),
    ),
    *rules(
        "scalar_tensor_tensor",
        ("arithmetic op0", {"op0": "add"}, {"op0": "bitwise_and"}),
        ("arithmetic op1", {"op1": "subtract"}, {"op1": "bitwise_or"}),
        ("at most one input in PSUM", {"data": PSUM}, {"data": PSUM, "operand1": PSUM}),
        ("operand0 of one element", {"operand0": VECTOR_TILE}, {"operand0": PAIR}),
        ("operand0 of as many partitions", {}, {"operand0": shaped(64, 1, dtype=FLOAT32)}),
        ("operand1 as long as data", {}, {"operand1": shaped(128, 256)}),
        ("operand1 of as many partitions", {}, {"operand1": shaped(64, 512)}),
    ),
    *rules(
        "reciprocal",
        ("equal partitions", {}, {"data": shaped(64, 512)}),
        ("equal elements a partition", {}, {"data": shaped(128, 256)}),
        ("in SBUF or PSUM", {"data": PSUM}, {"data": ROW_IN_HBM}),
    ),
    *rules(
        "tensor_tensor_scan",
        ("equal partitions", {}, {"data1": shaped(64, 512)}),
        ("equal elements a partition", {}, {"data1": shaped(128, 256)}),
        ("at most one input in PSUM", {"data0": PSUM}, {"data0": PSUM, "data1": PSUM}),
        ("a start of one element", {"initial": VECTOR_TILE}, {"initial": PAIR}),
        ("binary op0", {"op0": "subtract"}, {"op0": "abs"}),
        ("arithmetic op1", {"op1": "maximum"}, {"op1": "bitwise_and"}),
    ),
    *rules(
        "tensor_scalar_cumulative",
        ("arithmetic op0", {"op0": "maximum"}, {"op0": "bitwise_and"}),
        *[("five op1", {"op1": op}, {"op1": "abs_max"}) for op in ("add", "subtract", "minimum")],
        ("no INT32 in", {"src": of(INT16)}, {"src": of(INT32)}),
        ("no UINT32 out", {"dst": of(UINT16)}, {"dst": of(UINT32)}),
        ("imm0 of float32", {"imm0": VECTOR_TILE}, {"imm0": NARROW_VECTOR}),
        (
            "imm1 of float32",
            {"imm1": VECTOR_TILE, "reduce_cmd": ReduceCmd.load_reduce},
            {"imm1": NARROW_VECTOR, "reduce_cmd": ReduceCmd.load_reduce},
        ),
        (
            "imm1 to load",
            {"imm1": 1.0, "reduce_cmd": ReduceCmd.load_reduce},
            {"reduce_cmd": ReduceCmd.load_reduce},
        ),
        ("it accumulates", {"reduce_cmd": ReduceCmd.reduce}, {"reduce_cmd": ReduceCmd.idle}),
    ),
    *rules(
        "tensor_scalar_reduce",
        ("arithmetic op0", {"op0": "add"}, {"op0": "bitwise_or"}),
        ("operand0 of float32", {"operand0": VECTOR_TILE}, {"operand0": NARROW_VECTOR}),
        ("None or 0 for a unary operator", {"op0": "abs", "operand0": None}, {"op0": "abs"}),
        *[
            ("sum, product, maximum or minimum", {"reduce_op": op}, {"reduce_op": "subtract"})
            for op in ("add", "multiply", "maximum", "minimum")
        ],
        ("no reversed operands yet", {}, {"reverse0": True}),
        ("one result a partition", {"reduce_res": VECTOR_TILE}, {"reduce_res": PAIR}),
        ("reduce_init with load_reduce", loading(1.0), {"reduce_init": 1.0}),
        ("load_reduce with reduce_init", loading(1.0), loading(None)),
        ("reduce_init of float32", loading(VECTOR_TILE), loading(NARROW_VECTOR)),
        ("it accumulates", {"reduce_cmd": ReduceCmd.reduce}, {"reduce_cmd": ReduceCmd.idle}),
    ),
]

REDUCTIONS = [
    *rules(
        "tensor_reduce",
        ("an operator that reduces", {"op": "maximum"}, {"op": "equal"}),
        (
            "the last axes",
            {"data": shaped(128, 8, 64), "axis": 2, "dst": shaped(128, 8)},
            {"data": shaped(128, 8, 64), "axis": 1, "dst": shaped(128, 64)},
        ),
        ("not the partition axis", {"axis": (1,)}, {"axis": (0, 1)}),
        ("equal partitions", {}, {"dst": shaped(64, 1)}),
        ("what remains in dst", {}, {"dst": shaped(128, 2)}),
        (
            "negation of arithmetic alone",
            {"negate": True},
            {**WHOLE, "dst": shaped(128, 1, dtype=INT32), "op": "bitwise_and", "negate": True},
        ),
        (
            "bitvec operators of integers",
            {**WHOLE, "dst": shaped(128, 1, dtype=INT32), "op": "bitwise_and"},
            {"op": "bitwise_and"},
        ),
    ),
    *rules(
        "tensor_partition_reduce",
        *[
            ("five operators", {"op": op}, {"op": "minimum"})
            for op in ("add", "average", "maximum")
        ],
        (
            "bitvec operators of integers",
            {**WHOLE, "op": "bitwise_or"},
            {"op": "bitwise_or"},
        ),
    ),
    *rules(
        "bn_stats",
        ("up to 512 elements", {"F": 512}, {"F": 513}),
        ("six results", {"S": 6}, {"S": 5}),
    ),
    *rules("bn_aggr", ("whole triples", {"F": 6}, {"F": 7}), ("two results", {"S": 2}, {"S": 3})),
    *rules(
        "max8",
        ("at least 8 elements", {"F": 8}, {"F": 7}),
        ("up to 16384 elements", {"F": 16384}, {"F": 16385}),
        ("up to 3 dimensions", {"src": shaped(128, 4, 8)}, {"src": shaped(128, 2, 2, 8)}),
        ("eight results", {"E": 8}, {"E": 7}),
        ("results of 2 dimensions", {}, {"dst": shaped(128, 2, 4)}),
        ("equal partitions", {}, {"dst": shaped(64, 8)}),
    ),
    *rules(
        "nc_find_index8",
        ("at least 8 elements", {"F": 8}, {"F": 7}),
        ("up to 16384 elements", {"F": 16384}, {"F": 16385}),
        ("data of 3 dimensions", {"data": shaped(128, 4, 8)}, {"data": shaped(128, 2, 2, 8)}),
        ("vals of 3 dimensions", {"vals": shaped(128, 2, 4)}, {"vals": shaped(128, 2, 2, 2)}),
        ("eight values", {"E": 8}, {"E": 7}),
        ("indices of uint16 or uint32", {"dst": of(UINT16)}, {"dst": of(INT32)}),
    ),
    *rules(
        "nc_match_replace8",
        ("eight values", {"E": 8}, {"E": 9}),
        ("a number to put there", {"imm": -1.0}, {"imm": VECTOR_TILE}),
    ),
]

PLUS_ONE = {"op0": "multiply", "imm0": 2.0, "op1": "add", "imm1": 1.0}

ACTIVATIONS = [
    *rules(
        "activation",
        ("a known function", {"op": "gelu"}, {"op": "add"}),
        ("scale of float32", {"scale": VECTOR_TILE}, {"scale": NARROW_VECTOR}),
        ("scale of one element", {"scale": VECTOR_TILE}, {"scale": PAIR}),
        ("bias of as many partitions", {}, {"bias": shaped(64, 1, dtype=FLOAT32)}),
        ("no bias of tfloat32", {"bias": NARROW_VECTOR}, {"bias": shaped(128, 1, dtype=TFLOAT32)}),
        ("bias as a vector on v2", {"bias": VECTOR_TILE}, {"bias": 1.0}, 2),
        ("sums alone", {"reduce_op": "add"}, {"reduce_op": "maximum"}),
        ("one result a partition", {"reduce_res": VECTOR_TILE}, {"reduce_res": PAIR}),
        ("nothing loaded", {"reduce_cmd": ReduceCmd.reset}, {"reduce_cmd": ReduceCmd.load_reduce}),
        ("equal partitions", {}, {"data": shaped(64, 512)}),
        ("equal elements a partition", {"data": PSUM}, {"data": shaped(128, 256)}),
        ("in SBUF or PSUM", {"data": PSUM}, {"data": ROW_IN_HBM}),
    ),
    since("activation", 3, "a number as bias", bias=1.0),
    *rules(
        "activation_reduce",
        ("sums on v2", {"reduce_op": "add"}, {"reduce_op": "maximum"}, 2),
        ("one result a partition", {"reduce_res": None}, {"reduce_res": PAIR}),
        ("scale of float32", {"scale": VECTOR_TILE}, {"scale": NARROW_VECTOR}),
    ),
    *rules(
        "activate2",
        *[
            (
                f"six pairs, ({first}, {second}) among them",
                {**PLUS_ONE, "op0": first, "op1": second},
                {**PLUS_ONE, "op0": "subtract", "op1": "add"},
            )
            for first, second in (
                ("multiply", "add"),
                ("multiply", "subtract"),
                ("multiply", "bypass"),
                ("add", "bypass"),
                ("subtract", "bypass"),
                ("bypass", "bypass"),
            )
        ],
        ("op1 after op0", PLUS_ONE, {**PLUS_ONE, "op0": "bypass"}),
        (
            "reverse0 with op0",
            {**PLUS_ONE, "reverse0": True},
            {"op0": "bypass", "op1": "bypass", "reverse0": True},
        ),
        (
            "reverse1 with op1",
            {**PLUS_ONE, "reverse1": True},
            {"op1": "bypass", "reverse1": True},
        ),
        (
            "vectors of one dtype",
            {**PLUS_ONE, "imm0": VECTOR_TILE, "imm1": VECTOR_TILE},
            {**PLUS_ONE, "imm0": VECTOR_TILE, "imm1": NARROW_VECTOR},
        ),
        ("vectors of one element", {"imm0": VECTOR_TILE}, {"imm0": PAIR}),
        *[
            ("five reductions", {"reduce_op": op}, {"reduce_op": "multiply"})
            for op in ("add", "maximum", "minimum", "abs_max", "abs_min")
        ],
        ("nothing loaded", {"reduce_cmd": ReduceCmd.idle}, {"reduce_cmd": ReduceCmd.load_reduce}),
        ("equal partitions", {}, {"data": shaped(64, 512)}),
        ("equal elements a partition", {}, {"data": shaped(128, 256)}),
        on=4,
    ),
    since("activate2", 4),
    *rules(
        "exponential",
        ("no tfloat32 in", {"src": of(FLOAT32)}, {"src": of(TFLOAT32)}),
        ("no uint32 out", {"dst": of(UINT16)}, {"dst": of(UINT32)}),
        (
            "up to 4 dimensions",
            {"src": shaped(128, 2, 2, 128)},
            {"src": shaped(128, 2, 2, 2, 64)},
        ),
        ("max_value of float32", {"max_value": VECTOR_TILE}, {"max_value": NARROW_VECTOR}),
        ("max_value of one element", {"max_value": VECTOR_TILE}, {"max_value": PAIR}),
        ("reduce_init with load_reduce", loading(1.0), {"reduce_init": 1.0}),
        ("reduce_init of float32", loading(VECTOR_TILE), loading(NARROW_VECTOR)),
        ("four commands", {"reduce_cmd": ReduceCmd.reduce}, {"reduce_cmd": ReduceCmd.reset}),
        ("a float sum", summed(BFLOAT16), summed(INT32)),
        ("equal elements a partition", {}, {"src": shaped(128, 256)}),
        on=4,
    ),
    since("exponential", 4),
]

PATTERNS = [
    *rules(
        "iota",
        ("in SBUF", {}, {"dst": PSUM}),
        ("up to 4 dimensions", pattern(2, 2, 2, 2), pattern(2, 2, 2, 2, 2)),
        ("as many elements as dst", pattern(4, 8), pattern(4, 8, F=33)),
        ("an offset of int32", {"offset": 2**31 - 1}, {"offset": 2**31}),
        ("a multiplier of int32", {"channel_multiplier": -(2**31)}, {"channel_multiplier": 0.5}),
    ),
    *rules(
        "affine_select",
        ("dst in SBUF", {}, {"dst": PSUM}),
        ("on_true_tile in SBUF", {}, {"on_true_tile": PSUM}),
        ("up to 4 dimensions", pattern(2, 2, 2, 2), pattern(2, 2, 2, 2, 2)),
        ("as many elements as dst", pattern(4, 8), pattern(4, 8, F=33)),
        ("equal partitions", {}, {"on_true_tile": shaped(64, 512)}),
        ("an offset of int32", {"offset": -(2**31)}, {"offset": -(2**31) - 1}),
        ("a number where false", {"on_false_value": -1.0}, {"on_false_value": A_TILE}),
        ("a comparison", {"cmp_op": "less"}, {"cmp_op": "add"}),
    ),
    *rules(
        "range_select",
        *[
            ("five comparisons", {"comp_op0": op, "comp_op1": op}, {"comp_op1": "not_equal"})
            for op in ("equal", "less", "less_equal", "greater", "greater_equal")
        ],
        ("bounds of one element", {}, {"bound0": PAIR}),
        ("bounds of as many partitions", {}, {"bound1": shaped(64, 1, dtype=FLOAT32)}),
        ("bounds of float32", {}, {"bound0": NARROW_VECTOR}),
        ("float data", {"on_true_tile": of(FLOAT32)}, {"on_true_tile": of(INT32)}),
        ("indices up to 2^24", {"range_start": 2**24 - 511}, {"range_start": 2**24 - 510}),
        ("FP32_MIN where false", {}, {"on_false_value": 0.0}),
        ("maxima alone", {}, {"reduce_op": "add"}),
        ("a whole start", {"range_start": 5}, {"range_start": 0.5}),
        ("one result a partition", {"reduce_res": VECTOR_TILE}, {"reduce_res": PAIR}),
    ),
    since("range_select", 3),
    *rules(
        "select_reduce",
        ("at most one input in PSUM", {"on_true": PSUM}, {"on_true": PSUM, "predicate": PSUM}),
        ("equal partitions", {}, {"on_true": shaped(64, 512)}),
        ("equal elements a partition", {}, {"predicate": shaped(128, 256)}),
        *[
            ("no wide integers", {"on_true": of(INT16)}, {"on_true": of(dtype)})
            for dtype in (TFLOAT32, INT32, UINT32)
        ],
        ("on_false of one element", {"on_false": VECTOR_TILE}, {"on_false": PAIR}),
        *[
            ("a predicate of 8 or 16 bits", {"predicate": of(dtype)}, {"predicate": of(UINT32)})
            for dtype in (INT8, UINT8, INT16, UINT16)
        ],
        ("one result a partition", summed(FLOAT32), {**summed(FLOAT32), "reduce_res": PAIR}),
        ("a float result", summed(BFLOAT16), summed(INT32)),
        ("maxima alone", {}, {"reduce_op": "minimum"}),
        ("three commands", {"reduce_cmd": ReduceCmd.reduce}, {"reduce_cmd": ReduceCmd.load_reduce}),
    ),
    *rules(
        "sequence_bounds",
        ("one partition", {}, {"segment_ids": shaped(2, 512)}),
        ("two rows", {"dst": shaped(1, 2, 512)}, {"dst": shaped(1, 1, 512)}),
        ("float32 or int32 in", {"segment_ids": of(INT32)}, {"segment_ids": of(UINT32)}),
        ("float32 or int32 out", {"dst": of(INT32)}, {"dst": of(BFLOAT16)}),
    ),
    *rules(
        "nonzero_with_count",
        ("one element more in dst", {"N": 513}, {"N": 512}),
        ("equal partitions", {}, {"src": shaped(64, 512)}),
        ("float32 or int32 in", {"src": of(INT32)}, {"src": of(BFLOAT16)}),
        ("int32 out", {"dst": of(INT32)}, {"dst": of(UINT32)}),
        ("in SBUF", {}, {"src": PSUM}),
        ("an int32 offset", {"index_offset": 16}, {"index_offset": 1.5}),
        ("an int32 padding", {"padding_val": -(2**31)}, {"padding_val": 2**31}),
    ),
    since("nonzero_with_count", 3),
    *rules(
        "topk",
        ("bfloat16 in", {}, {"src": of(FLOAT32)}),
        ("bfloat16 values", {}, {"val_dst": of(FLOAT16)}),
        ("uint32 places", {}, {"idx_dst": of(INT32)}),
        ("in SBUF", {}, {"src": PSUM}),
        ("n from 8", {"n": 8, "K": 8}, {"n": 7, "K": 7}),
        ("n below 65536", {"n": 65535, "F": 4096}, {"n": 65536, "F": 4096}),
        ("K below 32768", {"n": 40000, "F": 2500, "K": 32767}, {"n": 40000, "F": 2500, "K": 32768}),
        ("K up to n", {"n": 64, "K": 64}, {"n": 63, "K": 64}),
        ("a place for each value", {}, {"idx_dst": shaped(128, 63)}),
        ("src with room for n", {"n": 4096}, {"n": 4097}),
        ("a multiple of 16 partitions", {"P": 112}, {"P": 120}),
    ),
]

RANDOM = [
    *rules(
        "rng",
        ("integers", {"dst": of(INT8)}, {"dst": of(FLOAT32)}),
        ("GpSimd writes no PSUM", {"engine": GPSIMD}, {"engine": GPSIMD, "dst": PSUM}),
        ("Vector or GpSimd Engine", {"dst": PSUM}, {"engine": SCALAR}),
    ),
    since("rng", 3, "on GpSimd", engine=GPSIMD),
    *rules(
        "rand2",
        ("its dtypes", {"dst": of(TFLOAT32)}, {"dst": of(FLOAT8_E4M3FN)}),
        ("min below max", {"min": 0.5, "max": 1.0}, {"min": 1.0, "max": 1.0}),
        ("min of float32", {"min": VECTOR_TILE}, {"min": NARROW_VECTOR}),
        ("max of float32", {"max": VECTOR_TILE}, {"max": NARROW_VECTOR}),
        on=4,
    ),
    since("rand2", 4),
    *rules(
        "dropout",
        ("equal dtypes", {}, {"dst": of(FLOAT32)}),
        ("prob of one element", {"prob": VECTOR_TILE}, {"prob": PAIR}),
        ("a float prob", {"prob": NARROW_VECTOR}, {"prob": shaped(128, 1, dtype=INT32)}),
        (
            "a float32 prob of integers",
            {**WHOLE, "prob": VECTOR_TILE},
            {**WHOLE, "prob": NARROW_VECTOR},
        ),
        ("a probability", {"prob": 1.0}, {"prob": 1.5}),
    ),
    *rules(
        "set_rng_seed",
        ("one element", {}, {"src_seeds": shaped(1, 2, dtype=INT32)}),
        ("32 bits", {"src_seeds": of(UINT32)}, {"src_seeds": of(UINT16)}),
        (
            "in SBUF or PSUM",
            {"src_seeds": Tensor(None, Memory.PSUM, INT32)},
            {"src_seeds": Tensor((1, 1), Memory.HBM, INT32)},
        ),
    ),
    *rules(
        "rand_set_state",
        ("uint32", {}, {"src_seeds": of(INT32)}),
        ("6 words for GpSimd", {"F": 6}, {"F": 24}),
        ("24 words for the Vector Engine", on_vector(24), on_vector(6), 4),
        ("in SBUF", {}, {"src_seeds": PSUM}, 4),
    ),
    since("rand_set_state", 3),
    since("rand_set_state", 4, "on the Vector Engine", **on_vector(24)),
    *rules(
        "rand_get_state",
        ("uint32", {}, {"dst": of(INT32)}),
        ("6 words for GpSimd", {"F": 6}, {"F": 24}),
        ("24 words for the Vector Engine", on_vector(24), on_vector(6), 4),
        ("GpSimd writes no PSUM", {"F": 6}, {"F": 6, "dst": PSUM}, 4),
    ),
    since("rand_get_state", 3),
    since("rand_get_state", 4, "on the Vector Engine", **on_vector(24), dst=PSUM),
]

RULES = [
    *MOVEMENT,
    *COPIES,
    *MATMULS,
    *ELEMENTWISE,
    *REDUCTIONS,
    *ACTIVATIONS,
    *PATTERNS,
    *RANDOM,
]


def made(opcode, changes):
    return example(Instruction.registry[opcode], **changes)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_lies_just_inside_is_taken(rule):
    made(rule.opcode, rule.inside).verify(CORES[rule.on])


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_lies_just_outside_is_refused_with_what_is_legal(rule):
    with pytest.raises(REFUSALS) as caught:
        made(rule.opcode, rule.outside).verify(CORES[rule.outside_on or rule.on])
    assert str(caught.value).startswith(f"{rule.opcode}: ")
    assert re.search("legal|must be|is .* elsewhere|does not say", caught.value.reason)
    assert caught.value.fix
    assert caught.value.source


def test_every_published_instruction_has_a_rule():
    published = {name for name, c in Instruction.registry.items() if c.is_in_nki_isa}
    assert {rule.opcode for rule in RULES} == published


@pytest.mark.parametrize("opcode", sorted(Instruction.registry))
def test_no_operand_is_indirect_before_v4_and_few_are_later(opcode):
    declared = Instruction.registry[opcode]
    for name, operand in declared.operands.items():
        if operand.is_immediate or operand.is_many or operand.access == "name":
            continue
        plain = example(declared)
        given = getattr(plain, name)
        if given is None or opcode.startswith("register"):
            continue
        index = tile((given.partitions, 1), UINT32, Memory.SBUF)
        columns = given.pattern.elements // given.partitions
        snake = SnakeIndex(index, columns, columns, 16)
        view = Tile(given.storage, given.dtype, given.pattern, snake)
        for core in (NEURONCORE_V3, NEURONCORE_V4):
            changed = example(declared, **{name: view})
            may = core is NEURONCORE_V4 and name in (declared.indirect or ARRAY_OPERANDS[opcode])
            if may:
                continue
            with pytest.raises(IllegalInstruction):
                changed.verify(core)
