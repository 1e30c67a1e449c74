"""Documented errors of neuronx-cc that cannot arise here, for docs/generated/ncc-errors.md.

Source: aws-neuron-sdk compiler/error-codes, a page for each.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Absent(NamedTuple):
    """A documented error that cannot arise here.

    Attributes:
        code: as neuronx-cc prints it ("NCC_EBIR023").
        rule: what is refused.
        fix: what to do about it.
        why_not: why it cannot arise here.
    """

    code: str
    rule: str
    fix: str
    why_not: str


_NO_CALL: Final = (
    "a graph calls only the user's own kernels, as Python functions; it has no custom call by a "
    "target's name"
)
_NO_QUANTIZE: Final = "no operation of a graph is the custom call QuantizeMX"
_NO_SCALED: Final = "no operation of a graph is the custom call for a block-scaled product"
_SHARD: Final = "split the model over more NeuronCores: tensor or pipeline parallelism"
_SMALLER: Final = "a smaller batch or shorter sequences, or tensor or pipeline parallelism"

ABSENT: Final = (
    Absent(
        "NCC_EBIR023",
        "AWS's kernel for an MLP takes an intermediate size of 4,096 at most",
        "tile the intermediate tensor, or shard it over more cores",
        "no part of a graph is replaced by AWS's own kernels here",
    ),
    Absent(
        "NCC_EBVF030",
        "the program has too many instructions",
        _SHARD,
        "a later stage of neuronx-cc reports it; trnsim has one stage, and reports NCC_EVRF007",
    ),
    Absent(
        "NCC_EHCA005",
        "the target of a custom call is not one that neuronx-cc knows",
        "call one of the listed targets",
        _NO_CALL,
    ),
    Absent(
        "NCC_EOOM002",
        "the graph's tensors do not fit in HBM together",
        _SMALLER,
        "its message is that of NCC_EOOM001, which trnsim reports instead",
    ),
    Absent(
        "NCC_EUOC002",
        "the operator is not supported",
        "write it with other operators",
        "its message is that of NCC_EVRF001, which trnsim reports instead",
    ),
    Absent(
        "NCC_EVRF006",
        "random bits come from the default algorithm alone",
        "use the framework's random functions",
        "rng_bit_generator has no algorithm to choose here: it is the default one",
    ),
    Absent(
        "NCC_EVRF015",
        "the target of a custom call is not one that neuronx-cc knows",
        "call one of the listed targets",
        _NO_CALL,
    ),
    Absent(
        "NCC_EVRF017",
        "windows that reduce cannot have gaps in their input",
        "insert the gaps by hand, or avoid them",
        "reduce_window has no gaps in its input here, as no pooling of PyTorch has",
    ),
    Absent(
        "NCC_EVRF019",
        "windows reduce one tensor, from one first value",
        "one reduction for each tensor",
        "reduce_window takes one tensor here",
    ),
    *(
        Absent(f"NCC_EVRF{number:03}", rule, fix, _NO_QUANTIZE)
        for number, rule, fix in (
            (36, "QuantizeMX: its configuration is JSON", "pass a JSON object"),
            (37, "QuantizeMX has one operand", "pass the tensor alone"),
            (38, "QuantizeMX works along the last or last but one dimension", "name one of them"),
            (39, "QuantizeMX has blocks of 32", "block_size=32"),
            (40, "QuantizeMX scales by EMAX", 'scale_method="EMAX"'),
            (41, "QuantizeMX takes bfloat16 and float16", "cast the tensor first"),
            (42, "QuantizeMX gives uint32 of four packed numbers", "declare results so"),
        )
    ),
    *(
        Absent(f"NCC_EVRF{number:03}", f"a block-scaled product {rule}", fix, _NO_SCALED)
        for number, rule, fix in (
            (43, "has four operands", "pass both sides, then both scales"),
            (44, "takes packed uint32 on its left", "pass what QuantizeMX gives"),
            (45, "gives float32 or bfloat16", "declare one of them"),
            (46, "has two dimensions or more on its left", "reshape it"),
            (47, "has two dimensions or more on its right", "reshape it"),
            (48, "has as many batches on either side", "give both sides the same batches"),
            (49, "is configured in JSON, with integers as dimensions", "pass a JSON object"),
            (50, "contracts equal lengths", "give both sides the same length"),
        )
    ),
    Absent(
        "NCC_EVRF052",
        "chips after Trn3 have no float8_e4m3",
        "use float8_e4m3fn",
        "there is no chip after Trn3 here",
    ),
    Absent(
        "NCC_EVRF053",
        "a block-scaled product contracts no dimension of its batch",
        "name other dimensions",
        _NO_SCALED,
    ),
    Absent(
        "NCC_EVRF054",
        "a block-scaled product's batch dimensions exist",
        "name dimensions from 0 to below the rank",
        _NO_SCALED,
    ),
    Absent(
        "NCC_EVRF055",
        "a block-scaled product's contracted dimensions exist",
        "name dimensions from 0 to below the rank",
        _NO_SCALED,
    ),
    Absent(
        "NCC_EVRF057",
        "QuantizeMX gives two tensors",
        "declare packed numbers and scales",
        _NO_QUANTIZE,
    ),
    Absent(
        "NCC_EVRF058",
        "QuantizeMX packs four numbers along a dimension",
        "pad the dimension to a multiple of 4",
        _NO_QUANTIZE,
    ),
    Absent(
        "NCC_EVRF059",
        "the file of an NKI kernel that the graph names does not exist",
        "trace the model anew, or copy the files to where the compiler runs",
        "a kernel in a graph is a Python function here, not a file",
    ),
    Absent(
        "NCC_EVRF064",
        "the graph breaks XLA's rules of shapes",
        "look in the compiler's log for the operation",
        "such a graph cannot be built here: an operation is refused where it is added",
    ),
    Absent(
        "NCC_EVRF065",
        "an NKI kernel was traced by a version of NKI that is too old",
        "trace it with the NKI of the compiler",
        "kernels are traced here, by this version, whenever a graph is compiled",
    ),
    Absent(
        "NCC_EXTP004",
        "the program has too many instructions",
        _SHARD,
        "a later stage of neuronx-cc reports it; trnsim has one stage, and reports NCC_EVRF007",
    ),
)
