"""Typical instances of each instruction, from which its page, engines and costs are derived.

By default an axis has its usual length, a tile is bfloat16 if that is legal, in the first legal
memory; `_CASES` has what differs. Tiles have no bytes: an instance can be verified and costed, not
executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from math import prod
from typing import Any, Final

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3, FLOAT32, INT32, UINT32, Dtype
from trnsim.fabric.fabric import fabric
from trnsim.isa.collectives.prepared import PreparedBy
from trnsim.isa.collectives.setting import Setting
from trnsim.isa.control.cores import DmaEngine
from trnsim.isa.control.register import VirtualRegister
from trnsim.isa.control.scalar import Scalar
from trnsim.isa.language.declaration import Operand
from trnsim.isa.language.instruction import HBM, PSUM, Instruction
from trnsim.isa.language.modes import DgeMode, Engine, MatmulPerfMode, ReduceCmd
from trnsim.memory import AccessPattern, Memory, Storage, Tile

_PARTITIONS: Final = 128
_COLUMNS: Final = 512
_QUADRANT: Final = 32
_PACKED_COLUMNS: Final = _COLUMNS // 4
"""Columns of a dtype that packs four elements."""
_TOP_COUNT: Final = 64
"""The K of topk: the number of values that it returns."""
_VALUE_COUNT: Final = 4096
"""The n of topk: the number of values from which it takes the largest."""

_RANKS: Final = (0, 1, 2, 3)

_AXIS_LENGTHS: Final = {
    "1": 1,
    "D": _PACKED_COLUMNS,
    "E": 8,
    "F": _COLUMNS,
    "I": _QUADRANT,
    "K": _PARTITIONS,
    "M": _PARTITIONS,
    "N": _COLUMNS,
    "P": _PARTITIONS,
    "S": 6,
    "T": _COLUMNS,
}
"""Axis letter -> its usual length."""

_PARAMETERS: Final[dict[str, object]] = {
    "axis": 1,
    "channel_multiplier": 1,
    "collective_dim": 0,
    "cmp_op": "greater_equal",
    "cores": (0, 1),
    "comp_op0": "greater_equal",
    "comp_op1": "less",
    "imm": 0.0,
    "iteration_id": 0,
    "max": 1.0,
    "on_false_value": 0.0,
    "op": "add",
    "op0": "multiply",
    "op1": "add",
    "pattern": ((1, _COLUMNS),),
    "pipe_id": 0,
    "prob": 0.5,
    "recv_from_rank": 1,
    "reduce_op": "add",
    "replica_group": (_RANKS,),
    "send_to_rank": 1,
    "setting": Setting(fabric("trn2.48xlarge", lnc=2), len(_RANKS)),
    "shuffle_mask": tuple(range(_QUADRANT)),
    "source_target_pairs": tuple(zip(_RANKS, (*_RANKS[1:], _RANKS[0]), strict=True)),
    "value": 0,
}
"""Parameter without a default -> its usual value."""

_IMMEDIATE: Final = 0.0
"""The default for an operand that may be a number or a vector."""


@dataclass(frozen=True)
class Tensor:
    """The shape, memory and dtype of a tile in a case; None means the default."""

    shape: tuple[int, ...] | None = None
    memory: Memory | None = None
    dtype: Dtype | None = None


_TILE_SHAPE: Final = (_PARTITIONS, _COLUMNS)
_ONE_INT32: Final = Tensor((1, 1), dtype=INT32)
_IN_HBM: Final = Tensor(_TILE_SHAPE, HBM)
_GATHERED: Final = Tensor((len(_RANKS) * _PARTITIONS, _COLUMNS), HBM)
_SCALAR: Final = Scalar(INT32)
_SCALAR.put(1)
_V_METADATA: Final = Tensor((3, len(_RANKS)), HBM, UINT32)
_SLOT: Final = Tensor((4, len(_RANKS)), HBM, UINT32)
_SAME_SHAPE: Final = {"srcs": (_IN_HBM,), "dsts": (_IN_HBM,)}
_V_CASE: Final = {
    "srcs": (_IN_HBM,),
    "dsts": (_GATHERED,),
    "metadata_tensor": _V_METADATA,
    "slot": _SLOT,
}
_DOUBLE_ROW: Final = {
    "stationary": Tensor((_PARTITIONS, 2, _PARTITIONS), dtype=FLOAT8_E4M3),
    "moving": Tensor((_PARTITIONS, 2, _COLUMNS), dtype=FLOAT8_E4M3),
}
_FLOAT32_INPUTS: Final = {"stationary": Tensor(dtype=FLOAT32), "moving": Tensor(dtype=FLOAT32)}
_TRANSPOSE: Final = {"N": _PARTITIONS, "dst": Tensor(dtype=BFLOAT16), "is_transpose": True}
_MX_SCALES: Final = {
    "stationary_scale": Tensor((_PARTITIONS, _PARTITIONS)),
    "moving_scale": Tensor((_PARTITIONS, _COLUMNS)),
}
_WITH_SUMS: Final = {"reduce_cmd": ReduceCmd.reset_reduce, "reduce_res": Tensor(dtype=FLOAT32)}
_EXP_CASE: Final[dict[str, object]] = {"op": "exp"}

_CASES: Final[dict[str, tuple[Mapping[str, object], ...]]] = {
    "activate2": (_EXP_CASE, {**_EXP_CASE, "reduce_op": "add", **_WITH_SUMS}),
    "activation": (_EXP_CASE, {**_EXP_CASE, "reduce_op": "add", **_WITH_SUMS}),
    "activation_reduce": ({**_EXP_CASE, "reduce_res": Tensor(dtype=FLOAT32)},),
    "all_gather": ({"srcs": (_IN_HBM,), "dsts": (_GATHERED,)},),
    "all_gather_v": (_V_CASE,),
    "all_gather_v_prepare": (_V_CASE,),
    "all_gather_v_trigger": ({**_V_CASE, "prepare_instr": PreparedBy("all_gather_v_prepare")},),
    "all_reduce": (
        _SAME_SHAPE,
        {"srcs": (Tensor(_TILE_SHAPE),), "dsts": (Tensor(_TILE_SHAPE),)},
    ),
    "all_to_all": (_SAME_SHAPE,),
    "all_to_all_v": (_V_CASE,),
    "all_to_all_v_prepare": (_V_CASE,),
    "all_to_all_v_trigger": ({**_V_CASE, "prepare_instr": PreparedBy("all_to_all_v_prepare")},),
    "bn_aggr": ({"S": 2, "F": 6},),
    "collective_permute": (_SAME_SHAPE,),
    "collective_permute_implicit": (
        {"srcs_by_channel": (_IN_HBM,), "dsts_by_channel": (_IN_HBM,)},
    ),
    "collective_permute_implicit_current_processing_rank_id": ({"dst": VirtualRegister(0)},),
    "collective_permute_implicit_reduce": (
        {
            "srcs0_by_channel": (_IN_HBM,),
            "srcs1_by_channel": (_IN_HBM,),
            "dsts_by_channel": (_IN_HBM,),
        },
    ),
    "core_barrier": ({"data": _IN_HBM},),
    "dma_compute": (
        {"dst": Tensor(_TILE_SHAPE), "srcs": (Tensor(_TILE_SHAPE), Tensor(_TILE_SHAPE))},
        {"dst": _IN_HBM, "srcs": (_IN_HBM, _IN_HBM)},
    ),
    "dma_copy": (
        {"dst": Tensor(_TILE_SHAPE), "src": _IN_HBM},
        {"dst": Tensor(_TILE_SHAPE), "src": _IN_HBM, "dge_mode": DgeMode.hwdge},
    ),
    "dma_transpose": (
        {"dst": Tensor((_PARTITIONS, _COLUMNS)), "src": Tensor((_COLUMNS, _PARTITIONS), HBM)},
    ),
    "exponential": ({}, _WITH_SUMS),
    "local_gather": ({"num_elem_per_idx": 1},),
    "memset": ({}, {"value": 1}),
    "nc_matmul": (
        {},
        _FLOAT32_INPUTS,
        {**_DOUBLE_ROW, "perf_mode": MatmulPerfMode.double_row},
        _TRANSPOSE,
    ),
    "nc_matmul_mx": (_MX_SCALES,),
    "nc_matmul_sparse": (
        {"T": _QUADRANT, "moving": Tensor((_PARTITIONS, 2, _COLUMNS)), "compress_ratio": 2},
    ),
    "nc_stream_shuffle": ({"D": _PARTITIONS, "S": _PARTITIONS},),
    "nc_transpose": (
        {"F": _PARTITIONS, "dst": Tensor(memory=PSUM)},
        {"F": _QUADRANT, "P": _QUADRANT},
    ),
    "nonzero_with_count": ({"N": _COLUMNS + 1},),
    "quantize_mx": ({"dst_scale": Tensor((_PARTITIONS, _PACKED_COLUMNS))},),
    "rand_get_state": ({"F": 6}, {"F": 24}),
    "rand_set_state": ({"F": 6}, {"F": 24}),
    "range_select": ({}, {"reduce_res": Tensor(dtype=FLOAT32)}),
    "rank_id": ({"dst": VirtualRegister(0)},),
    "reduce_scatter": ({"srcs": (_GATHERED,), "dsts": (_IN_HBM,)},),
    "register_load": ({"dst": VirtualRegister(0), "src": _ONE_INT32},),
    "register_move": ({"dst": VirtualRegister(0), "src": 1},),
    "register_store": ({"dst": _ONE_INT32, "src": VirtualRegister(0)},),
    "scalar_arithmetic": ({"op": "add", "x": _SCALAR, "y": 1, "dst": Scalar(INT32)},),
    "scalar_load": ({"src": _ONE_INT32, "dst": Scalar(INT32)},),
    "scalar_store": ({"dst": _ONE_INT32, "value": _SCALAR},),
    "select_reduce": ({}, _WITH_SUMS),
    "sendrecv": ({}, {"F": 256, "dma_engine": DmaEngine.gpsimd_dma}),
    "sequence_bounds": ({"D": 2 * _COLUMNS},),
    "set_rng_seed": ({"src_seeds": _ONE_INT32},),
    "tensor_copy_predicated": ({"src": Tensor()},),
    "tensor_reduce": ({"dst": Tensor((_PARTITIONS, 1))},),
    "tensor_scalar": ({"operand0": 2.0}, {"op0": "rsqrt"}),
    "tensor_scalar_reduce": ({"op0": "multiply", "operand0": 2.0},),
    "tensor_tensor": ({}, {"data2": Tensor(memory=PSUM)}, {"op": "power"}),
    "topk": ({"K": _TOP_COUNT, "F": _VALUE_COUNT // 16, "n": _VALUE_COUNT},),
}
"""Opcode -> cases (axis lengths, tiles of operands, values of parameters), the usual one first."""


def examples(instruction_class: type[Instruction]) -> Iterator[Instruction]:
    """Instances of an instruction: each case, on each engine that a kernel may name.

    Not every instance is legal on every core: `verify` decides.
    """
    for case in _CASES.get(instruction_class.opcode, ({},)):
        instance = _instance(instruction_class, case)
        may_name = len(instruction_class.engines) > 1 and any(
            f.name == "engine" for f in fields(instruction_class)
        )
        for engine in instruction_class.engines if may_name else ():
            yield on_engine(instance, engine)
        if not may_name:
            yield instance


def on_engine(instance: Instruction, engine: Engine) -> Instruction:
    """A copy of the instance that names `engine`."""
    named_engine: dict[str, Any] = {"engine": engine}
    return replace(instance, **named_engine)


def example(instruction_class: type[Instruction], **changes: object) -> Instruction:
    """The usual instance of an instruction, with `changes`.

    A change is the length of an axis by its letter, a `Tensor` or a tile by its operand, or the
    value of a parameter.
    """
    return _instance(
        instruction_class, {**_CASES.get(instruction_class.opcode, ({},))[0], **changes}
    )


def _instance(instruction_class: type[Instruction], case: Mapping[str, object]) -> Instruction:
    """The instance that a case describes."""
    values: dict[str, object] = {}
    for field in fields(instruction_class):
        operand = instruction_class.operands.get(field.name)
        value = case.get(field.name, _default(field, operand))
        if value is not MISSING:
            values[field.name] = _operand_value(operand, value, case) if operand else value
    maker: Any = instruction_class
    instance: Instruction = maker(**values)
    return instance


def _default(field: Field[Any], operand: Operand | None) -> object:
    """The value of a field that a case does not name; MISSING for the declaration's default."""
    if field.default is not MISSING:
        return MISSING
    if operand is None or operand.is_immediate:
        return _PARAMETERS.get(field.name, _IMMEDIATE)
    return Tensor()


def _operand_value(operand: Operand, value: object, case: Mapping[str, object]) -> object:
    """A tile for a `Tensor`, tiles for a tuple of them; another value unchanged."""
    if isinstance(value, tuple):
        return tuple(_operand_value(operand, item, case) for item in value)
    if not isinstance(value, Tensor):
        return value
    shape = value.shape or tuple(_length(axis, case) for axis in operand.axes)
    dtype = value.dtype or _usual_dtype(operand.dtypes, operand.memories)
    return tile(shape, dtype, value.memory or operand.memories[0])


def _length(axis: str, case: Mapping[str, object]) -> int:
    length = case.get(axis, _AXIS_LENGTHS[axis])
    assert isinstance(length, int)  # noqa: S101  the table above says so
    return length


def _usual_dtype(legal: tuple[Dtype, ...], memories: tuple[Memory, ...]) -> Dtype:
    """float32 in PSUM, else bfloat16, float32 or uint32, whichever is the first legal one.

    The first legal dtype if none of these is.
    """
    if not legal:
        return FLOAT32 if memories == (PSUM,) else BFLOAT16
    usual = [dtype for dtype in (BFLOAT16, FLOAT32, UINT32) if dtype in legal]
    return FLOAT32 if memories == (PSUM,) and FLOAT32 in legal else [*usual, *legal][0]


def tile(shape: tuple[int, ...], dtype: Dtype, memory: Memory) -> Tile:
    """A tile with a storage of its own, without bytes."""
    pitch_bytes = prod(shape[1:]) * dtype.itemsize
    storage = Storage(memory, shape[0] * pitch_bytes, pitch_bytes)
    return Tile(storage, dtype, AccessPattern.dense(shape, dtype.itemsize, pitch_bytes))
