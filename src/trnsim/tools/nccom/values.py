"""The computation of ``--check``: an operation on real values, beside a golden result.

A reduction adds in the order of the fabric's algorithm. Its sums are rounded wherever the algorithm
writes to memory, as in a kernel. The golden result is NumPy's sum of the inputs in 64 bits. At most
`MOST_ELEMENTS` of a rank's message are computed. The collective engine adds in float32, so integers
are kept so small that their sum is exact. AWS documents no tolerance for floats; here it is the
most that the roundings can add up to. `metadata` has the chunks of a variable operation, from the
file that states them.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Data Integrity;
compiler/error-codes/EVRF061.rst, Why this happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim import dtypes
from trnsim.dtypes import Array, Dtype, round_to, to_float32
from trnsim.errors import BadInput, InternalError
from trnsim.fabric.exchange import groups_like
from trnsim.fabric.reduction import Order, reduction_order
from trnsim.tools.nccom.operations import item_bytes
from trnsim.tools.nccom.options import RANDOM
from trnsim.tools.nccom.times import PlannedOperation

MOST_ELEMENTS: Final = 4096
"""Elements of a rank's message that are computed."""
MOST_EXTENT: Final = 2**18
"""The highest legal end of a chunk, in elements, where a file states the chunks' sizes."""
_EXACT: Final = 2**24
"""The integer up to which float32 has every integer."""
_FORMATS: Final[dict[str, Dtype]] = {
    "uint8": dtypes.UINT8,
    "int8": dtypes.INT8,
    "fp8": dtypes.FLOAT8_E4M3,
    "fp8e4": dtypes.FLOAT8_E4M3,
    "uint16": dtypes.UINT16,
    "int16": dtypes.INT16,
    "fp16": dtypes.FLOAT16,
    "bf16": dtypes.BFLOAT16,
    "uint32": dtypes.UINT32,
    "int32": dtypes.INT32,
    "fp32": dtypes.FLOAT32,
}
Floats = npt.NDArray[np.float64]


class CheckedValues(NamedTuple):
    """The result of a check of values without a wrong value.

    Attributes:
        elements: elements of a rank's message that were computed.
        error: the largest difference of a value from the golden one.
    """

    elements: int
    error: float


def check(planned: PlannedOperation, nbytes: int, seed: int) -> CheckedValues:
    """Compute an operation, and compare each rank's output with the golden one.

    Raises:
        BadInput: the data type cannot hold the sum.
        InternalError: an output differs.
    """
    worst, count = 0.0, 0
    for group in planned.groups:
        inputs = _inputs(planned, nbytes, group, seed)
        count = len(inputs[0])
        outputs, golden = _results(planned, nbytes, group, inputs)
        bounds = _tolerance(planned, inputs)
        for output, expected in zip(outputs, golden, strict=True):
            error = np.abs(to_float32(output).astype(np.float64) - expected)
            worst = max(worst, float(error.max(initial=0.0)))
            if not (error <= bounds).all():
                raise InternalError(
                    f"--check of {planned.operation.name} of {nbytes:,} bytes: an output is "
                    f"{worst:g} from the golden one"
                )
    return CheckedValues(count, worst)


def _inputs(planned: PlannedOperation, nbytes: int, group: Sequence[int], seed: int) -> list[Array]:
    """The input of each rank, as long as its message; a gather sends only the first part of it."""
    options, ranks = planned.options, len(group)
    dtype = _FORMATS[options.datatype]
    elements = nbytes // item_bytes(options.datatype)
    if planned.metadata is None:
        count = min(-(-elements // ranks) * ranks, max(MOST_ELEMENTS // ranks, 1) * ranks)
    else:
        count = _extent(planned, group)
    largest_value = 1 if dtype.is_float else min(_largest(dtype), _EXACT) // ranks
    if planned.operation.passes > 1 or planned.operation.name == "reduce_scatter":
        _check_sum(options.datatype, dtype, ranks)
    else:
        largest_value = max(largest_value, 1)
    if options.check != RANDOM:
        return [round_to(np.ones(count, np.float32), dtype) for _ in group]
    inputs = []
    for rank in group:
        random = np.random.default_rng([seed, rank])
        values: Any = (
            random.uniform(-1, 1, count)
            if dtype.is_float
            else random.integers(0, largest_value + 1, count)
        )
        inputs.append(round_to(values.astype(np.float32), dtype))
    return inputs


def _largest(dtype: Dtype) -> int:
    """The largest integer of an integer data type."""
    return int(np.iinfo(dtype.dtype).max)


def _check_sum(name: str, dtype: Dtype, ranks: int) -> None:
    """Refuse a data type that has no value for the sum of ones."""
    largest = float(dtypes.float_range(dtype).largest) if dtype.is_float else _largest(dtype)
    if ranks > largest:
        raise BadInput(
            f"--check of {name} over {ranks} ranks, whose sum of ones has no value; legal: up to "
            f"{largest:g} ranks",
            fix="take a wider --datatype, such as fp32",
        )


def _extent(planned: PlannedOperation, group: Sequence[int]) -> int:
    """Elements up to the end of the last chunk of a group.

    Raises:
        BadInput: the number is above `MOST_EXTENT`.
    """
    extent = planned.metadata.extent(group) if planned.metadata is not None else 0
    if extent > MOST_EXTENT:
        raise BadInput(
            f"--check of chunks up to element {extent:,}; legal here: up to {MOST_EXTENT:,}",
            fix="leave --check out: the times are the same",
        )
    return extent


def _results(
    planned: PlannedOperation, nbytes: int, group: tuple[int, ...], inputs: Sequence[Array]
) -> tuple[list[Array], list[Floats]]:
    """Outputs of each rank as the collective makes them, and golden ones from the inputs."""
    exact = [to_float32(array).astype(np.float64) for array in inputs]
    ranks, count = len(group), len(inputs[0])
    if planned.metadata is not None:
        return _received_chunks(planned, group, inputs), _sent_chunks(planned, group, exact)
    match planned.operation.name:
        case "all_reduce" | "reduce_scatter":
            total = _sum(planned, nbytes, group, inputs)
            golden = np.sum(exact, axis=0)
            if planned.operation.name == "all_reduce":
                return [total] * ranks, [golden] * ranks
            return np.split(total, ranks), np.split(golden, ranks)
        case "all_gather":
            part = count // ranks
            joined = np.concatenate([array[:part] for array in inputs])
            golden = np.array([exact[index // part][index % part] for index in range(count)])
            return [joined] * ranks, [golden] * ranks
        case "alltoall":
            part = count // ranks
            outputs = [
                np.concatenate([array[rank * part : (rank + 1) * part] for array in inputs])
                for rank in range(ranks)
            ]
            blocks = np.reshape(exact, (ranks, ranks, part)).transpose(1, 0, 2)
            return outputs, list(blocks.reshape(ranks, count))
        case _:
            return _received_messages(planned, group, inputs), _sent_messages(planned, group, exact)


def _sum(
    planned: PlannedOperation, nbytes: int, group: tuple[int, ...], inputs: Sequence[Array]
) -> Array:
    """The sum in the order of the algorithm, rounded at each write to memory."""
    fabric, kind = planned.fabric, planned.operation.kind
    alike_groups = groups_like(fabric, planned.groups, group)
    order = reduction_order(fabric, kind, float(nbytes), alike_groups, group)
    dtype = _FORMATS[planned.options.datatype]
    values = {rank: to_float32(array) for rank, array in zip(group, inputs, strict=True)}

    def partial_sum(part: Order) -> Array:
        if isinstance(part, int):
            return values[part]
        return to_float32(round_to(reduce(np.add, map(partial_sum, part)), dtype))

    return round_to(partial_sum(order), dtype)


def _received_messages(
    planned: PlannedOperation, group: Sequence[int], inputs: Sequence[Array]
) -> list[Any]:
    """The message that each rank of a group receives; zeros if no rank sends to it."""
    sources = {target: source for source, target in planned.pairs}
    input_by_rank = dict(zip(group, inputs, strict=True))
    zeros = np.zeros_like(inputs[0])
    return [input_by_rank.get(sources.get(rank, -1), zeros) for rank in group]


def _sent_messages(
    planned: PlannedOperation, group: Sequence[int], exact: Sequence[Floats]
) -> list[Floats]:
    """The expected messages, computed from the side of the senders."""
    golden = [np.zeros_like(array) for array in exact]
    for source, target in planned.pairs:
        if source in group:
            golden[group.index(target)] = exact[group.index(source)]
    return golden


def _received_chunks(
    planned: PlannedOperation, group: Sequence[int], inputs: Sequence[Array]
) -> list[Any]:
    """The chunks that each rank receives, at their places; zeros between them."""
    metadata = planned.metadata
    outputs: list[Any] = [np.zeros_like(array) for array in inputs]
    if metadata is not None:
        for receiver in range(len(group)):
            offsets = metadata.receive_offsets(group, receiver)
            for index, sender in enumerate(group):
                length = metadata.send_count(sender, receiver)
                source, target = metadata.send_offset(sender, receiver), offsets[index]
                outputs[receiver][target : target + length] = inputs[index][
                    source : source + length
                ]
    return outputs


def _sent_chunks(
    planned: PlannedOperation, group: Sequence[int], exact: Sequence[Floats]
) -> list[Floats]:
    """The expected chunks, computed from the side of the senders, element by element."""
    golden = [np.zeros_like(array) for array in exact]
    if planned.metadata is not None:
        offsets = [
            planned.metadata.receive_offsets(group, receiver) for receiver in range(len(group))
        ]
        for index, sender in enumerate(group):
            entry = planned.metadata.entries[sender]
            has_chunks = len(entry.send_counts) > 1
            for receiver in range(len(group)):
                chunk = receiver if has_chunks else 0
                first, length = entry.send_displs[chunk], entry.send_counts[chunk]
                begin = offsets[receiver][index]
                for element in range(length):
                    golden[receiver][begin + element] = exact[index][first + element]
    return golden


def _tolerance(planned: PlannedOperation, inputs: Sequence[Array]) -> Any:
    """Upper bound of the error that roundings of a sum add up to; 0 for integers and for moves."""
    dtype = _FORMATS[planned.options.datatype]
    is_sum = planned.operation.name in ("all_reduce", "reduce_scatter")
    if not is_sum or not dtype.is_float:
        return 0.0
    step = 2.0 ** -(dtype.mantissa_bits + 1)
    magnitudes = np.sum([np.abs(to_float32(array)).astype(np.float64) for array in inputs], axis=0)
    return float(magnitudes.max(initial=0.0)) * len(inputs) * step
