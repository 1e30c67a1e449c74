"""The errors that AWS documents for neuronx-cc and that can arise here.

docs/makers/ncc_absent.py lists the errors that cannot arise. Source: aws-neuron-sdk
compiler/error-codes, a page for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_PAGES: Final = "aws-neuron-sdk compiler/error-codes"


@dataclass(frozen=True, slots=True)
class NccError:
    """A documented error.

    Attributes:
        code: its code, as neuronx-cc prints it ("NCC_EVRF001").
        reading: how an ambiguity of AWS's page is read here.
        is_final: True if there is no fallback, so that it is an error under either policy.
    """

    code: str
    rule: str
    fix: str
    reading: str = ""
    is_final: bool = False

    @property
    def source(self) -> str:
        """AWS's page of the error."""
        return f"{_PAGES}/{self.code.removeprefix('NCC_')}.rst"


_SHARD_REMEDY: Final = "split the model over more NeuronCores: tensor or pipeline parallelism"
_SMALLER_REMEDY: Final = "a smaller batch or shorter sequences, or tensor or pipeline parallelism"
_LIMIT: Final = (
    "No page gives the limit. 5,000,000 is the number that neuronx-cc prints in a public report "
    "(aws-neuron-sdk issue 819, XTP002)."
)
_MEMORY: Final = (
    "The four codes share one message. trnsim reports the first that holds: EVRF009 if inputs and "
    "outputs alone exceed the HBM of the device, EXSP001 if temporary tensors do, EOOM001 if both "
    "together do."
)
_DEFAULT: Final = (
    "The page says that the default refuses; the reference of --implicit-integer-downcast says "
    "that it permits, and so do the release notes of Neuron 2.32. The latter hold here."
)
_CAST_REMEDY: Final = "cast the operands to a floating-point type first"

_ROWS: Final = (
    NccError(
        "NCC_EARG001",
        "the chip's NeuronCores do not form logical cores of that size",
        "--logical-nc-config=1 on this chip",
        is_final=True,
    ),
    NccError(
        "NCC_EMOD025",
        "every dimension of a tensor has a size when the graph is compiled",
        "torch.compile(dynamic=False), or pad inputs to a few fixed sizes",
        reading="A graph of `torch.compile` is compiled here for each size that occurs, and the "
        "code is a warning. An exported program without sizes has no time: it is an error.",
    ),
    NccError(
        "NCC_EOOM001",
        "the graph's tensors do not fit in HBM together",
        _SMALLER_REMEDY,
        reading=_MEMORY,
        is_final=True,
    ),
    NccError(
        "NCC_ESFH002",
        "a constant of unsigned 64 bits must fit in 32 bits",
        "use uint32, or a smaller constant",
    ),
    NccError(
        "NCC_ESPP004",
        "no NeuronCore has the data type",
        "cast to a type that it has: float32, bfloat16, float16",
        reading="The page names float4_e2m1fn. trnsim reports it for the types of PyTorch that "
        "AWS's list of data types lacks: float64, float4, and quantized ones.",
    ),
    NccError(
        "NCC_ESPP047",
        "no NeuronCore has this 8-bit floating point as a tensor's type",
        "cast it, for example to float16",
        reading="The page's example is float8_e4m3fn without a chip. trnsim reports NCC_EVRF051 "
        "for it, which names the chips, and this code for float8_e8m0fnu.",
    ),
    NccError(
        "NCC_EVRF001",
        "the operator is not supported",
        "write it with other operators, or compute it on the CPU",
        reading="AWS's list (`neuronx-cc list-operators`) is not published. trnsim reports it for "
        "operators without a lowering of its own, which are not the same ones.",
    ),
    NccError(
        "NCC_EVRF004",
        "complex numbers are not supported",
        "compute with the real and the imaginary part, or on the CPU",
        reading="Neuron 2.32 compiles complex64 in 30 operations (release notes); none of them "
        "has a lowering here, so the page holds.",
    ),
    NccError(
        "NCC_EVRF005",
        "F8E4M3FNUZ, F8E4M3B11FNUZ and F8E5M2FNUZ are not supported",
        "cast it, for example to float16",
    ),
    NccError("NCC_EVRF007", "the program has too many instructions", _SHARD_REMEDY, reading=_LIMIT),
    NccError(
        "NCC_EVRF009",
        "the graph's inputs and outputs do not fit in HBM",
        _SMALLER_REMEDY,
        reading=_MEMORY,
        is_final=True,
    ),
    NccError(
        "NCC_EVRF010",
        "a convolution cannot have gaps in its input and in its kernel",
        "dilate one of the two alone, or dilate by hand first",
    ),
    NccError(
        "NCC_EVRF011",
        "a convolution cannot have strides and gaps in its input",
        "do without strides or gaps, or sample up and down in operations of their own",
        reading="No convolution of PyTorch has this form, nor do its gradients; a graph can.",
    ),
    NccError(
        "NCC_EVRF013", "TopK takes no integers of 32 or 64 bits", "cast the tensor to float32 first"
    ),
    NccError(
        "NCC_EVRF016",
        "a scatter that reduces takes no integers and no booleans",
        "cast both tensors to a floating-point type first",
        reading="The page's example is `scatter_reduce` of int32; NCC_EVRF060, which is newer, "
        "allows other scatters of 32- and 64-bit integers by a flag. So trnsim reports this for "
        "`scatter_reduce`, and for every scatter that combines shorter integers or booleans.",
    ),
    NccError(
        "NCC_EVRF018",
        "the windows of a reduction cannot be dilated",
        "do without dilation, or dilate by hand",
    ),
    NccError(
        "NCC_EVRF022",
        "an arithmetic shift to the right takes 32-bit numbers",
        "cast what is shifted to int32 first",
    ),
    NccError(
        "NCC_EVRF031",
        "indices that a scatter counts up run past the tensor's end",
        "count no further than the tensor is long",
    ),
    NccError(
        "NCC_EVRF035",
        "the Tensor Engine multiplies no integers of 32 or 64 bits",
        f"{_CAST_REMEDY}, or --implicit-integer-downcast=dot, which multiplies in float32",
        reading=_DEFAULT,
    ),
    NccError(
        "NCC_EVRF051",
        "float8_e4m3fn comes with Trn3",
        "compile for trn3, or --experimental-unsafe-fp8e4m3fn-as-fp8e4m3",
    ),
    NccError(
        "NCC_EVRF056",
        "places that a gather counts up run past the tensor's end",
        "count no further than the tensor is long: a model's sequences are no longer than its "
        "table of positions (max_position_embeddings)",
    ),
    NccError(
        "NCC_EVRF060",
        "a scatter combines integers of 32 or 64 bits in float32 alone",
        f"{_CAST_REMEDY}, or --implicit-integer-downcast=scatter",
        reading=_DEFAULT,
    ),
    NccError(
        "NCC_EVRF061",
        "an all-reduce adds integers of 32 or 64 bits in float32 alone",
        f"{_CAST_REMEDY}, or --implicit-integer-downcast=all_reduce",
        reading=_DEFAULT,
    ),
    NccError(
        "NCC_EVRF062",
        "a power of 64-bit integers is computed in 32 bits alone",
        "cast it to int32 first, or --implicit-integer-downcast=pow",
        reading=_DEFAULT,
    ),
    NccError(
        "NCC_EVRF063",
        "a reduce-scatter adds integers of 32 or 64 bits in float32 alone",
        f"{_CAST_REMEDY}, or --implicit-integer-downcast=reduce_scatter",
        reading=_DEFAULT,
    ),
    NccError(
        "NCC_EVRF066",
        "the kernels of a graph have the graph's number of cores",
        "NEURON_LOGICAL_NC_CONFIG=1 or 2, which kernels and graphs follow",
        reading="It applies to kernels of NKI 0.7 in traced and compiled programs. No document "
        "says whether neuronx-cc refuses a kernel that is launched by itself; trnsim does not.",
        is_final=True,
    ),
    NccError(
        "NCC_EXSP001",
        "what the graph keeps between operations does not fit in HBM",
        _SMALLER_REMEDY,
        reading=_MEMORY,
        is_final=True,
    ),
)
NCC_ERRORS: Final = {row.code: row for row in _ROWS}
