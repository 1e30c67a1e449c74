"""The flags that AWS documents for neuronx-cc, as data: values, meanings, and those without effect.

Source: aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst, 'compile' Command, unless
a row says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SOURCE: Final = "aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst"

DOWNCASTS: Final = ("dot", "scatter", "all_reduce", "reduce_scatter", "pow")
"""Operations without an integer datapath, as --implicit-integer-downcast names them."""


@dataclass(frozen=True, kw_only=True)
class CompilerFlag:
    """A flag of neuronx-cc.

    Attributes:
        name: its name without leading dashes, words joined by hyphens.
        sets: the field of `Flags` that it sets; "" if it has no effect here.
        values: the value that the field of `Flags` gets, by the text after the flag; the key "" is
            the flag without a value.
        value_text: legal values in words, if `values` cannot list all of them; "" if it does.
        note: why it has no effect here, as the end of a sentence.
        notes: the same for some of its values.
        is_of_host: True if it concerns files, logs and caches of the host, and changes no program.
    """

    name: str
    sets: str = ""
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    value_text: str = ""
    note: str = ""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    is_of_host: bool = False

    @property
    def takes_value(self) -> bool:
        """True if a value follows the flag."""
        return bool(self.value_text) or any(self.values)


def _text_values(*values: str) -> dict[str, Any]:
    """Text of a flag's value -> the value of its setting, which is the same text."""
    return {value: value for value in values}


_SWITCH: Final = {"": True}
"""The values of a flag that takes none."""
_NO_FILE: Final = "has no effect here: neuronx-cc itself writes such a file"
_NO_BINARY: Final = "has no effect: no binary is made or loaded"
_CACHE: Final = "has no effect on a program: it is of the persistent cache"
_INTEGERS: Final = "has no effect yet: a graph holds 64-bit integers in 32 bits"

_ROWS: Final = (
    CompilerFlag(name="auto-cast", sets="auto_cast", values=_text_values("none", "matmult", "all")),
    CompilerFlag(
        name="auto-cast-type",
        sets="auto_cast_type",
        values=_text_values("bf16", "fp16", "tf32", "fp8_e4m3"),
        notes={"tf32": "has no effect yet: no operation of a graph has that type"},
    ),
    CompilerFlag(name="optlevel", sets="optlevel", values={"1": 1, "2": 2, "3": 3}),
    CompilerFlag(
        name="model-type",
        sets="model_type",
        values={
            **_text_values("generic", "transformer", "unet-inference"),
            # neuronx-distributed-inference and aws-neuron-samples pass these two
            "transformer-inference": "transformer",
            "cnn-training": "generic",
        },
        notes={"cnn-training": "is taken for generic: AWS's page does not have it"},
    ),
    CompilerFlag(name="logical-nc-config", sets="logical_nc_config", values={"1": 1, "2": 2}),
    CompilerFlag(
        name="native-int64",
        sets="native_int64",
        values={"default": False, "enabled": True, "disabled": False},
        notes={"enabled": _INTEGERS},
    ),
    CompilerFlag(
        name="implicit-integer-downcast",
        sets="implicit_integer_downcast",
        values={"default": DOWNCASTS, "all": DOWNCASTS, "none": ()},
        value_text=f"a list of {', '.join(DOWNCASTS)}",
    ),
    CompilerFlag(
        name="enable-mixed-precision-accumulation",
        sets="mixed_precision_accumulation",
        values=_SWITCH,
    ),
    CompilerFlag(
        name="disable-mixed-precision-accumulation",
        sets="mixed_precision_accumulation",
        values={"": False},
        note="has no effect: engines accumulate in float32 here",
    ),
    CompilerFlag(
        name="enable-saturate-infinity",
        sets="saturate_infinity",
        values=_SWITCH,
        note="has no effect: matmuls that transpose keep infinities here",
    ),
    CompilerFlag(
        name="target",
        sets="target",
        values=_text_values("inf2", "trn1", "trn1n", "trn2", "trn3"),
        note="has no effect: the chip is the device's, or that of --on",
    ),
    # compiler/error-codes/EVRF051.rst
    CompilerFlag(
        name="experimental-unsafe-fp8e4m3fn-as-fp8e4m3",
        sets="fp8_e4m3fn_as_e4m3",
        values=_SWITCH,
    ),
    CompilerFlag(
        name="framework",
        values=_text_values("XLA"),
        note="has no effect: graphs come from the framework that calls",
        is_of_host=True,
    ),
    CompilerFlag(
        name="distribution-strategy",
        values=_text_values("generic", "llm-training", "NEMO"),
        note="has no effect: a graph is compiled as it was sharded",
    ),
    CompilerFlag(
        name="enable-fast-context-switch",
        values=_SWITCH,
        note="has no effect: models are not switched on a NeuronCore here",
    ),
    CompilerFlag(name="enable-fast-loading-neuron-binaries", values=_SWITCH, note=_NO_BINARY),
    CompilerFlag(name="logfile", value_text="a file", note=_NO_FILE, is_of_host=True),
    CompilerFlag(name="output", value_text="a file", note=_NO_FILE, is_of_host=True),
    CompilerFlag(
        name="verbose",
        value_text="info, warning, error, critical, debug or a number",
        note="has no effect: nothing is logged",
        is_of_host=True,
    ),
    # release-notes/components/compiler.rst
    CompilerFlag(name="enable-experimental-O1", sets="optlevel", values={"": 1}),
    CompilerFlag(
        name="num-parallel-jobs",
        value_text="a number",
        note="has no effect: one process compiles",
        is_of_host=True,
    ),
    # about-neuron/arch/neuron-features/neuron-caching.rst: these are the framework's own
    CompilerFlag(
        name="cache-dir", value_text="a folder or an address", note=_CACHE, is_of_host=True
    ),
    CompilerFlag(name="no-cache", values=_SWITCH, note=_CACHE, is_of_host=True),
    CompilerFlag(name="retry-failed-compilation", values=_SWITCH, note=_CACHE, is_of_host=True),
    CompilerFlag(
        name="log-level",
        value_text="a level",
        note="has no effect: nothing is logged",
        is_of_host=True,
    ),
    # vllm-neuron and nxd guides, tutorials
    CompilerFlag(name="workdir", value_text="a folder", note=_NO_FILE, is_of_host=True),
    CompilerFlag(name="compile-workdir", value_text="a folder", note=_NO_FILE, is_of_host=True),
    CompilerFlag(name="temp-dir", value_text="a folder", note=_NO_FILE, is_of_host=True),
    CompilerFlag(
        name="hbm-scratchpad-page-size",
        value_text="a number of MiB",
        note="has no effect: HBM is planned byte by byte",
    ),
    CompilerFlag(
        name="disable-dge", values=_SWITCH, note="has no effect: no kernel of a graph uses the DGE"
    ),
    # archive/nxd-training/analyze_for_training.rst: neuron_parallel_compile's analyze passes it
    CompilerFlag(
        name="query-compute-placement",
        values=_SWITCH,
        note="has no effect: refusals of AWS's compiler are always looked for",
    ),
    CompilerFlag(
        name="tensorizer-options",
        value_text="a text",
        note="has no effect: they are for a part of AWS's compiler",
    ),
)
FLAGS: Final = {flag.name: flag for flag in _ROWS}

SPELLINGS: Final = {
    "-O": "optlevel",
    "-lnc": "logical-nc-config",
    "--lnc": "logical-nc-config",
    "-target": "target",
}
"""Short forms. `--lnc` is how error-codes/EARG001.rst writes it."""

INF1: Final = {
    "fast-math": "--auto-cast and --auto-cast-type",
    "fp32-cast": "--auto-cast and --auto-cast-type",
    "neuroncore-pipeline-cores": "--logical-nc-config, for two cores",
    "io-config": "no such flag: a graph has its shapes",
    "static-weights": "no such flag: a traced graph has its weights",
}
"""Flags of neuron-cc with what neuronx-cc has instead.

Source: compiler/neuron-cc/command-line-reference.rst.
"""
