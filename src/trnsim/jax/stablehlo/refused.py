"""Operations without a rule: computed on the host or refused, each with its reason and source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from trnsim.errors import NotModelled

_KNOWN_ISSUES: Final = "aws-neuron-sdk frameworks/jax/setup/jax-neuronx-known-issues.rst"


@dataclass(frozen=True, slots=True)
class RefusedOperation:
    """The refusal of an operation that is not imported.

    Attributes:
        fix: a way around it.
        is_on_host: True if XLA computes it on the host, so that a program has values, but no time.
        source: the document that states the reason.
    """

    why: str
    fix: str = "compute it outside the program, and pass the result"
    is_on_host: bool = False
    source: str = _KNOWN_ISSUES


_COMPLEX: Final = RefusedOperation(
    "a NeuronCore has no complex numbers", "keep two real tensors", True
)
_DYNAMIC: Final = RefusedOperation(
    "a program for a NeuronCore has fixed shapes",
    "export it at fixed shapes",
    source="aws-neuron-sdk compiler/error-codes/EMOD025.rst",
)
_QUANTIZED: Final = RefusedOperation(
    "no type of a NeuronCore has a scale",
    "multiply by the scale in the program",
    source="nki.api.shared.rst, Supported Data Types",
)
_HOST: Final = RefusedOperation(
    "the host exchanges nothing with a program that runs", "return the value"
)
_LINKED: Final = RefusedOperation(
    "cores exchange values by collectives alone",
    "use collective_permute",
    source="nki.collectives, Collective Operations",
)
_ASYNC: Final = RefusedOperation(
    "operations of a program have one order", "call the operation itself", source="nki-about.rst"
)

REFUSED: Final[dict[str, RefusedOperation]] = {
    **dict.fromkeys(("stablehlo.complex", "stablehlo.real", "stablehlo.imag"), _COMPLEX),
    "stablehlo.fft": _COMPLEX,
    **{
        f"stablehlo.{name}": _DYNAMIC
        for name in (
            *("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota"),
            *("dynamic_pad", "dynamic_reshape", "real_dynamic_slice", "set_dimension_size"),
        )
    },
    **dict.fromkeys(("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"), _QUANTIZED),
    **dict.fromkeys(("stablehlo.infeed", "stablehlo.outfeed"), _HOST),
    **dict.fromkeys(("stablehlo.send", "stablehlo.recv"), _LINKED),
    **dict.fromkeys(("stablehlo.async_start", "stablehlo.async_done"), _ASYNC),
}
"""Refusals by the operation's name, with its dialect."""


def refuse(name: str) -> NoReturn:
    """Refuse an operation.

    Raises:
        NotModelled: always, with the reason.
    """
    refusal = REFUSED.get(name)
    if refusal is None:
        raise NotModelled(
            f"{name} is no operation that is imported",
            fix="docs/generated/jax-ops.md lists those that are",
            source="StableHLO Specification",
        )
    raise NotModelled(f"{name}: {refusal.why}", fix=refusal.fix, source=refusal.source)
