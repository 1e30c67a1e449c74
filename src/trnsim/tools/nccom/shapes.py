"""Tensors in SBUF: ``--sb2sb`` and the shapes of input and output.

A shape is ``[step0,step1][num_elem0,num_elem1]``: dimension 0 is the free one, 1 is the partitions.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, SBUF Collectives; release notes of
2.26 (tools.rst): on Trn2, for all-reduce, all-gather and reduce-scatter.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trnsim.arch import Target
from trnsim.errors import BadInput
from trnsim.fabric.constants import has_described_algorithms
from trnsim.tools.nccom.operations import ITEM_BYTES, NccomOperation
from trnsim.tools.nccom.options import OperationOptions

_PATTERN: Final = re.compile(r"\[(\d{1,9}),(\d{1,9})\]\[(\d{1,9}),(\d{1,9})\]")
_OPERATIONS: Final = ("all_reduce", "all_gather", "reduce_scatter")
_SOURCE: Final = "release notes of 2.26, nccom-test new State Buffer support"


class SbufShape(NamedTuple):
    """A tensor in SBUF.

    Attributes:
        steps: distance of two elements along the free dimension, and along partitions.
        counts: number of elements along the same two dimensions.
    """

    steps: tuple[int, int]
    counts: tuple[int, int]

    @property
    def elements(self) -> int:
        """Number of all elements."""
        return self.counts[0] * self.counts[1]


def sbuf_shape(option: str, text: str, partitions: int) -> SbufShape:
    """The shape that an option states.

    Raises:
        BadInput: the text is no shape, or has more partitions than SBUF.
    """
    match = _PATTERN.fullmatch(re.sub(r"\s", "", text))
    numbers = [int(number) for number in match.groups()] if match else [0]
    if min(numbers) < 1:
        raise BadInput(
            f"{option} {text!r}; legal: [step0,step1][num_elem0,num_elem1] of whole numbers from 1 "
            "on",
            fix=f"for example {option} '[1,1][512,128]'",
        )
    if numbers[3] > partitions:
        raise BadInput(
            f"{option} {text}: num_elem1 is {numbers[3]}; legal: up to {partitions}, the "
            "partitions of SBUF"
        )
    return SbufShape((numbers[0], numbers[1]), (numbers[2], numbers[3]))


def check_sbuf(
    options: OperationOptions,
    operation: NccomOperation,
    target: Target | None,
    lnc: int,
    ranks: int,
    size: int,
) -> None:
    """Refuse tensors that exceed SBUF, and chips and operations that take no tensors in SBUF.

    Args:
        options: the options of the operation.
        operation: the operation.
        target: the chip; None for Inferentia1.
        lnc: NeuronCores of a rank.
        ranks: ranks of a group.
        size: bytes of the message.

    Raises:
        BadInput: the options of --sb2sb are not legal.
    """
    if not options.sb2sb:
        return
    has_sbuf_collectives = target is not None and has_described_algorithms(
        target.chip
    )  # from Trn2 on
    if target is None or operation.name not in _OPERATIONS or not has_sbuf_collectives:
        chip = target.name if target else "inf1"
        raise BadInput(
            f"--sb2sb of {operation.name} on {chip}; legal: {', '.join(_OPERATIONS)}, from trn2 on",
            fix="leave it out: tensors are then in HBM",
            source=_SOURCE,
        )
    core = target.core
    element_bytes = ITEM_BYTES[options.datatype]
    buffers = operation.buffers(size, element_bytes, ranks)
    sbuf_bytes = lnc * core.partitions * core.sbuf_partition_bytes
    if sum(buffers) > sbuf_bytes:
        raise BadInput(
            f"--sb2sb of {size:,} bytes: input and output have {sum(buffers):,}; legal: up to "
            f"{sbuf_bytes:,}, the SBUF of a rank of {lnc} NeuronCores",
            fix="take smaller --minbytes and --maxbytes, whose default is 32M",
        )
    for option, text, nbytes in (
        ("--input-shape", options.input_shape, buffers[0]),
        ("--output-shape", options.output_shape, buffers[1]),
    ):
        if text:
            shape = sbuf_shape(option, text, int(core.partitions))
            if shape.elements * element_bytes != nbytes:
                raise BadInput(
                    f"{option} {text} has {shape.elements:,} elements; legal: "
                    f"{nbytes // element_bytes:,}, those of a message of {size:,} bytes",
                    fix="state one size: the same --minbytes and --maxbytes",
                )
