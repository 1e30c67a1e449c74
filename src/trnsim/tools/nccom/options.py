"""The options of one operation, from the command line or from a stream's file.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, CLI arguments; the names are its long
ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from trnsim.errors import BadInput
from trnsim.reader import FileRecord, declared
from trnsim.tools.nccom.sizes import DEFAULT_SIZE

RANDOM: Final = "random"
"""Content of the inputs of ``--check`` without a value."""
CHECKS: Final = (RANDOM, "all_ones")
"""Contents of the inputs of ``--check``."""
FILE_FIXES: Final = {
    "--custom-replica-groups": 'write {"replica_groups": [[[0, 1], [2, 3]]]}',
    "--custom-src-target-pairs": 'write {"src_target_pairs": [[[0, 1], [1, 0]]]}',
    "--variable-size-op-metadata": 'write {"metadata": [{"send_counts": [1000, 3000], '
    '"send_displs": [0, 1000]}]}',
    "--streams-json": 'write {"streams": [{"operation": "all_reduce", "minbytes": "1MB", '
    '"maxbytes": "1MB"}]}',
}
"""Fixes of errors in a file, by its option: an example of the file."""
_RATIO: Final = re.compile(r"\[\s*\d{1,9}(\s*,\s*\d{1,9})*\s*\]")
DIMENSIONS: Final = (0, 1)
"""Legal values of ``--cc-dim``: free, partition."""
DEFAULT_DIMENSION: Final = 1
_MOST_OPERATIONS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class OperationOptions:
    """The options of one operation.

    Attributes:
        operation: its name, long or short.
        datatype: data type of the elements.
        minbytes: the first size.
        maxbytes: the end of the sizes.
        stepbytes: bytes between two sizes; "" for a tenth of the range.
        stepfactor: ratio of a size to the one before it; "" for none.
        check: the values of the inputs, random or all_ones; "" for no check.
        seed: the seed of random inputs; None for one from the clock.
        unique_buff: whether each operation has buffers of its own.
        coalesced_cc_size_ratio: the parts of the message, as "[1,2,1]"; "" for one.
        shared_output_buff: whether two cores share an output buffer.
        variable_size_op_metadata: the file of counts.
        sb2sb: whether tensors lie in SBUF.
        input_shape: the input in SBUF, as "[1,1][512,128]"; "" where it is not stated.
        output_shape: the output in SBUF, in the same form.
        cc_dim: the dimension along which tensors are joined first.
        data_parallel_dimension: ranks of a sub-group; None for one group of all.
        custom_replica_groups: the file of groups.
        custom_src_target_pairs: the file of pairs.
        ops_per_iter: operations of a stream for each iteration.
    """

    operation: str
    datatype: str = "uint8"
    minbytes: str = DEFAULT_SIZE
    maxbytes: str = DEFAULT_SIZE
    stepbytes: str = ""
    stepfactor: str = ""
    check: str = ""
    seed: int | None = None
    unique_buff: bool = False
    coalesced_cc_size_ratio: str = ""
    shared_output_buff: bool = False
    variable_size_op_metadata: Path | None = None
    sb2sb: bool = False
    input_shape: str = ""
    output_shape: str = ""
    cc_dim: int = DEFAULT_DIMENSION
    data_parallel_dimension: int | None = None
    custom_replica_groups: Path | None = None
    custom_src_target_pairs: Path | None = None
    ops_per_iter: int = 1

    def check_legal(self) -> None:
        """Refuse options that exclude each other, and values that are not legal.

        Raises:
            BadInput: the error names both options, or the legal values.
        """
        if self.check and self.check not in CHECKS:
            raise BadInput(f"--check {self.check}; legal: {', '.join(CHECKS)}, or nothing")
        if self.seed is not None and self.check != RANDOM:
            raise BadInput(
                f"--seed {self.seed} without --check {RANDOM}, whose inputs it is of; legal: "
                "both or neither",
                fix=f"--check {RANDOM} --seed {self.seed}",
            )
        if self.custom_replica_groups is not None and self.data_parallel_dimension is not None:
            raise BadInput(
                "--custom-replica-groups and --data-parallel-dimension; legal: one of them",
                fix="leave one out: both name the groups",
            )
        self._check_sbuf()

    def _check_sbuf(self) -> None:
        options = {
            "--input-shape": bool(self.input_shape),
            "--output-shape": bool(self.output_shape),
            "--cc-dim": self.cc_dim != DEFAULT_DIMENSION,
        }
        sbuf_options = [name for name, is_stated in options.items() if is_stated]
        if sbuf_options and not self.sb2sb:
            raise BadInput(
                f"{sbuf_options[0]} is of tensors in SBUF; legal: with --sb2sb", fix="add --sb2sb"
            )
        if self.cc_dim not in DIMENSIONS:
            raise BadInput(f"--cc-dim {self.cc_dim}; legal: 0 (free) or 1 (partition)")

    def ratio(self) -> tuple[int, ...]:
        """The parts of a message, in their own unit; (1,) without a ratio.

        Raises:
            BadInput: the text is not a ratio.
        """
        text = self.coalesced_cc_size_ratio
        if not text:
            return (1,)
        ratio = [int(word) for word in re.findall(r"\d+", text)] if _RATIO.fullmatch(text) else []
        if not ratio or min(ratio) < 1:
            raise BadInput(
                f"--coalesced-cc-size-ratio {text!r}; legal: whole numbers from 1 on, as [1,2,1]",
                fix="quote it: --coalesced-cc-size-ratio '[1,2,1]'",
            )
        return tuple(ratio)

    def parts(self, nbytes: int, element_bytes: int) -> tuple[int, ...]:
        """Bytes of the coalesced parts of a message; of one part without a ratio.

        Raises:
            BadInput: the text is not a ratio, or a part would have no whole number of elements.
        """
        ratio = self.ratio()
        unit, remainder = divmod(nbytes, sum(ratio))
        parts = tuple(unit * share for share in ratio)
        if remainder or any(part % element_bytes for part in parts):
            raise BadInput(
                f"--coalesced-cc-size-ratio {self.coalesced_cc_size_ratio} of {nbytes:,} bytes; "
                f"legal: parts of whole elements of {element_bytes} bytes",
                fix=f"take a multiple of {sum(ratio) * element_bytes} bytes",
            )
        return parts


@dataclass(frozen=True, kw_only=True)
class StreamFields(FileRecord):
    """The operation of a stream: what differs from the command line.

    Names are the long ones of the command line, with "_" for "-".
    """

    operation: str | None = declared(None, help="the operation", example="all_reduce")
    datatype: str | None = declared(None, help="data type", example="bf16")
    minbytes: str | int | None = declared(None, help="the first size", exclusive_minimum=0)
    maxbytes: str | int | None = declared(None, help="the end of the sizes", exclusive_minimum=0)
    stepbytes: str | int | None = declared(
        None, help="bytes between two sizes", exclusive_minimum=0
    )
    stepfactor: str | int | None = declared(
        None, help="a size over the one before", exclusive_minimum=0
    )
    check: str | bool | None = declared(None, help="random, all_ones, true or false")
    seed: int | None = declared(None, help="of random inputs", minimum=0)
    unique_buff: bool | None = declared(None, help="buffers of each operation's own")
    coalesced_cc_size_ratio: str | tuple[int, ...] | None = declared(
        None, help="parts of the message", exclusive_minimum=0
    )
    shared_output_buff: bool | None = declared(None, help="an output buffer of two cores")
    variable_size_op_metadata: str | None = declared(None, help="file of counts")
    sb2sb: bool | None = declared(None, help="tensors in SBUF")
    input_shape: str | None = declared(None, help="[step0,step1][num_elem0,num_elem1]")
    output_shape: str | None = declared(None, help="the same of the output")
    cc_dim: int | None = declared(None, help="0 or 1", minimum=0, maximum=1)
    data_parallel_dimension: int | None = declared(
        None, help="ranks of a sub-group", exclusive_minimum=0
    )
    custom_replica_groups: str | None = declared(None, help="file of groups")
    custom_src_target_pairs: str | None = declared(None, help="file of pairs")
    ops_per_iter: int | None = declared(
        None, help="operations for each iteration", exclusive_minimum=0, maximum=_MOST_OPERATIONS
    )

    def with_defaults(self, base: OperationOptions) -> OperationOptions:
        """The options of the command line, replaced by those that the stream states."""
        values = {field.name: getattr(base, field.name) for field in fields(base)}
        for option, replaced_option in _ALTERNATIVES:
            if getattr(self, option) is not None:
                values[replaced_option] = getattr(OperationOptions(operation=""), replaced_option)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                values[field.name] = _option_value(field.name, value)
        return OperationOptions(**values)


_ALTERNATIVES: Final = (
    ("stepbytes", "stepfactor"),
    ("stepfactor", "stepbytes"),
    ("custom_replica_groups", "data_parallel_dimension"),
    ("data_parallel_dimension", "custom_replica_groups"),
)
"""Pairs: an option of a stream, and the option of the command line that it replaces."""
_FILES: Final = (
    "variable_size_op_metadata",
    "custom_replica_groups",
    "custom_src_target_pairs",
)
_SIZES: Final = ("minbytes", "maxbytes", "stepbytes", "stepfactor")


def _option_value(name: str, value: object) -> object:
    """A field of JSON as the option of the command line."""
    if name in _FILES:
        return Path(str(value))
    if name in _SIZES:
        return str(value)
    if name == "check" and isinstance(value, bool):
        return RANDOM if value else ""
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return value
