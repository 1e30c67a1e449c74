"""Typical instances of each instruction, from which its page, engines and prices are derived.

Defaults fill in what a declaration leaves open: an axis gets its usual length, a dtype is bfloat16
where legal, a memory the first legal one; `_CASES` has the rest. Tiles have no bytes: an instance
can be verified and priced, not executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from math import prod
from typing import Any, Final

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3, FLOAT32, INT32, UINT32, Dtype
from trnsim.fabric.fabric import fabric
from trnsim.isa.collectives.setting import Setting
from trnsim.isa.control.cores import DmaEngine
from trnsim.isa.control.register import VirtualRegister
from trnsim.isa.language.declaration import Operand
from trnsim.isa.language.instruction import HBM, PSUM, Instruction
from trnsim.isa.language.modes import DgeMode, Engine, MatmulPerfMode, ReduceCmd
from trnsim.memory import AccessPattern, Memory, Storage, Tile

_PARTITIONS: Final = 128
_COLUMNS: Final = 512
_QUADRANT: Final = 32
_PACKED: Final = _COLUMNS // 4
_TOP: Final = 64
_VALUES: Final = 4096

_RANKS: Final = (0, 1, 2, 3)

_LENGTHS: Final = {
    "1": 1,
    "D": _PACKED,
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
"""The usual length of each axis letter."""

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
"""The usual value of each parameter without a default."""

_NUMBER: Final = 0.0
"""The default for an operand that may be a number or a vector."""


@dataclass(frozen=True)
class Tensor:
    """A tile in a case; None means the default for the declaration."""

    shape: tuple[int, ...] | None = None
    memory: Memory | None = None
    dtype: Dtype | None = None


_ROWS: Final = (_PARTITIONS, _COLUMNS)
_ONE: Final = Tensor((1, 1), dtype=INT32)
_FAR: Final = Tensor(_ROWS, HBM)
_WHOLE: Final = Tensor((len(_RANKS) * _PARTITIONS, _COLUMNS), HBM)
_COUNTS: Final = Tensor((3, len(_RANKS)), HBM, UINT32)
_SAME: Final = {"srcs": (_FAR,), "dsts": (_FAR,)}
_PAIRED: Final = {
    "stationary": Tensor((_PARTITIONS, 2, _PARTITIONS), dtype=FLOAT8_E4M3),
    "moving": Tensor((_PARTITIONS, 2, _COLUMNS), dtype=FLOAT8_E4M3),
}
_WIDE: Final = {"stationary": Tensor(dtype=FLOAT32), "moving": Tensor(dtype=FLOAT32)}
_IDENTITY: Final = {"N": _PARTITIONS, "dst": Tensor(dtype=BFLOAT16), "is_transpose": True}
_SCALES: Final = {
    "stationary_scale": Tensor((_PARTITIONS, _PARTITIONS)),
    "moving_scale": Tensor((_PARTITIONS, _COLUMNS)),
}
_SUMMED: Final = {"reduce_cmd": ReduceCmd.reset_reduce, "reduce_res": Tensor(dtype=FLOAT32)}
_EXP: Final[dict[str, object]] = {"op": "exp"}

_CASES: Final[dict[str, tuple[Mapping[str, object], ...]]] = {
    "activate2": (_EXP, {**_EXP, "reduce_op": "add", **_SUMMED}),
    "activation": (_EXP, {**_EXP, "reduce_op": "add", **_SUMMED}),
    "activation_reduce": ({**_EXP, "reduce_res": Tensor(dtype=FLOAT32)},),
    "all_gather": ({"srcs": (_FAR,), "dsts": (_WHOLE,)},),
    "all_gather_v": ({"srcs": (_FAR,), "dsts": (_WHOLE,), "metadata_tensor": _COUNTS},),
    "all_reduce": (_SAME, {"srcs": (Tensor(_ROWS),), "dsts": (Tensor(_ROWS),)}),
    "all_to_all": (_SAME,),
    "all_to_all_v": ({**_SAME, "metadata_tensor": _COUNTS},),
    "bn_aggr": ({"S": 2, "F": 6},),
    "collective_permute": (_SAME,),
    "collective_permute_implicit": ({"srcs_by_channel": (_FAR,), "dsts_by_channel": (_FAR,)},),
    "collective_permute_implicit_current_processing_rank_id": ({"dst": VirtualRegister(0)},),
    "collective_permute_implicit_reduce": (
        {
            "srcs0_by_channel": (_FAR,),
            "srcs1_by_channel": (_FAR,),
            "dsts_by_channel": (_FAR,),
        },
    ),
    "core_barrier": ({"data": _FAR},),
    "dma_compute": (
        {"dst": Tensor(_ROWS), "srcs": (Tensor(_ROWS), Tensor(_ROWS))},
        {"dst": _FAR, "srcs": (_FAR, _FAR)},
    ),
    "dma_copy": (
        {"dst": Tensor(_ROWS), "src": _FAR},
        {"dst": Tensor(_ROWS), "src": _FAR, "dge_mode": DgeMode.hwdge},
    ),
    "dma_transpose": (
        {"dst": Tensor((_PARTITIONS, _COLUMNS)), "src": Tensor((_COLUMNS, _PARTITIONS), HBM)},
    ),
    "exponential": ({}, _SUMMED),
    "local_gather": ({"num_elem_per_idx": 1},),
    "memset": ({}, {"value": 1}),
    "nc_matmul": ({}, _WIDE, {**_PAIRED, "perf_mode": MatmulPerfMode.double_row}, _IDENTITY),
    "nc_matmul_mx": (_SCALES,),
    "nc_matmul_sparse": (
        {"T": _QUADRANT, "moving": Tensor((_PARTITIONS, 2, _COLUMNS)), "compress_ratio": 2},
    ),
    "nc_stream_shuffle": ({"D": _PARTITIONS, "S": _PARTITIONS},),
    "nc_transpose": (
        {"F": _PARTITIONS, "dst": Tensor(memory=PSUM)},
        {"F": _QUADRANT, "P": _QUADRANT},
    ),
    "nonzero_with_count": ({"N": _COLUMNS + 1},),
    "quantize_mx": ({"dst_scale": Tensor((_PARTITIONS, _PACKED))},),
    "rand_get_state": ({"F": 6}, {"F": 24}),
    "rand_set_state": ({"F": 6}, {"F": 24}),
    "range_select": ({}, {"reduce_res": Tensor(dtype=FLOAT32)}),
    "rank_id": ({"dst": VirtualRegister(0)},),
    "reduce_scatter": ({"srcs": (_WHOLE,), "dsts": (_FAR,)},),
    "register_load": ({"dst": VirtualRegister(0), "src": _ONE},),
    "register_move": ({"dst": VirtualRegister(0), "src": 1},),
    "register_store": ({"dst": _ONE, "src": VirtualRegister(0)},),
    "select_reduce": ({}, _SUMMED),
    "sendrecv": ({}, {"F": 256, "dma_engine": DmaEngine.gpsimd_dma}),
    "sequence_bounds": ({"D": 2 * _COLUMNS},),
    "set_rng_seed": ({"src_seeds": _ONE},),
    "tensor_copy_predicated": ({"src": Tensor()},),
    "tensor_reduce": ({"dst": Tensor((_PARTITIONS, 1))},),
    "tensor_scalar": ({"operand0": 2.0}, {"op0": "rsqrt"}),
    "tensor_scalar_reduce": ({"op0": "multiply", "operand0": 2.0},),
    "tensor_tensor": ({}, {"data2": Tensor(memory=PSUM)}, {"op": "power"}),
    "topk": ({"K": _TOP, "F": _VALUES // 16, "n": _VALUES},),
}
"""Opcode -> cases (axis lengths, tiles of operands, values of parameters), the usual one first."""


def examples(declared: type[Instruction]) -> Iterator[Instruction]:
    """Instances of an instruction: each case, on each engine that the kernel may name.

    Not every instance is legal on every core: `verify` decides.
    """
    for case in _CASES.get(declared.opcode, ({},)):
        instance = _instance(declared, case)
        may_name = len(declared.engines) > 1 and any(f.name == "engine" for f in fields(declared))
        for engine in declared.engines if may_name else ():
            yield on_engine(instance, engine)
        if not may_name:
            yield instance


def on_engine(instance: Instruction, engine: Engine) -> Instruction:
    """The instance with that engine named."""
    named: dict[str, Any] = {"engine": engine}
    return replace(instance, **named)


def example(declared: type[Instruction], **changes: object) -> Instruction:
    """The usual instance of an instruction, with `changes`.

    A change is the length of an axis by its letter, a `Tensor` or a tile by its operand, or the
    value of a parameter.
    """
    return _instance(declared, {**_CASES.get(declared.opcode, ({},))[0], **changes})


def _instance(declared: type[Instruction], case: Mapping[str, object]) -> Instruction:
    """The instance that a case describes."""
    values: dict[str, object] = {}
    for field in fields(declared):
        operand = declared.operands.get(field.name)
        setting = case.get(field.name, _parameter(field, operand))
        if setting is not MISSING:
            values[field.name] = _filled(operand, setting, case) if operand else setting
    maker: Any = declared
    instance: Instruction = maker(**values)
    return instance


def _parameter(field: Field[Any], operand: Operand | None) -> object:
    """The default value of a field in a case; MISSING keeps the declaration's default."""
    if field.default is not MISSING:
        return MISSING
    if operand is None or operand.is_immediate:
        return _PARAMETERS.get(field.name, _NUMBER)
    return Tensor()


def _filled(operand: Operand, setting: object, case: Mapping[str, object]) -> object:
    """A tile for a `Tensor`, tiles for a tuple; a number unchanged."""
    if isinstance(setting, tuple):
        return tuple(_filled(operand, item, case) for item in setting)
    if not isinstance(setting, Tensor):
        return setting
    shape = setting.shape or tuple(_length(axis, case) for axis in operand.axes)
    dtype = setting.dtype or _usual(operand.dtypes, operand.memories)
    return tile(shape, dtype, setting.memory or operand.memories[0])


def _length(axis: str, case: Mapping[str, object]) -> int:
    length = case.get(axis, _LENGTHS[axis])
    assert isinstance(length, int)  # noqa: S101  the table above says so
    return length


def _usual(legal: tuple[Dtype, ...], memories: tuple[Memory, ...]) -> Dtype:
    """bfloat16 where it is legal, float32 where it accumulates, else the first legal dtype."""
    if not legal:
        return FLOAT32 if memories == (PSUM,) else BFLOAT16
    usual = [dtype for dtype in (BFLOAT16, FLOAT32, UINT32) if dtype in legal]
    return FLOAT32 if memories == (PSUM,) and FLOAT32 in legal else [*usual, *legal][0]


def tile(shape: tuple[int, ...], dtype: Dtype, memory: Memory) -> Tile:
    """A tile with a storage of its own, without bytes."""
    pitch_bytes = prod(shape[1:]) * dtype.itemsize
    storage = Storage(memory, shape[0] * pitch_bytes, pitch_bytes)
    return Tile(storage, dtype, AccessPattern.dense(shape, dtype.itemsize, pitch_bytes))
