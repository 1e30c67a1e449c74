"""Programs in files, of whatever format, compiled to files in place of NEFFs.

HLO and StableHLO need jaxlib; graphs that trnsim stored (`trnsim.device.graph_file`) need nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from trnsim.compiler import Flags
from trnsim.compiler.flags import program_flags
from trnsim.compiler.stand_in import StandIn, is_neff, is_program, parse_program, refuse_neff
from trnsim.device import graph_file
from trnsim.device.model_report import ModelReport, Subject, report_model
from trnsim.device.program_cache import stored_program
from trnsim.errors import BadInput

HLO, STABLEHLO = "hlo", "stablehlo"
_TRACED_MAGIC: Final = b"trnsim traced program"
"""The beginning of a traced PyTorch program, which `trnsim.torch.traces.stored` reads."""
_TARGET_CHIPS: Final = {"trn1n": "trn1"}
"""Families of instances whose chip has another name."""


def chip_of(target: str) -> str:
    """The chip of a family of instances, as --target names it."""
    return _TARGET_CHIPS.get(target, target)


def program_in(content: bytes, path: str) -> tuple[bytes, str]:
    """(Bytes of the graph in a file, format of the graph); for a program its own graph.

    Raises:
        BadInput: for a NEFF by AWS, and a damaged program.
    """
    refuse_neff(content, path)
    if is_program(content):
        stored_program = parse_program(content, path)
        return stored_program.graph, stored_program.graph_format
    if graph_file.is_graph_file(content):
        return content, graph_file.FORMAT
    if content.startswith(_TRACED_MAGIC):
        raise BadInput(
            f"{path} is a program that torch_neuronx.trace stored, which runs in its module",
            fix="torch.jit.load the module; the report lies beside the program in its workdir",
        )
    hlo: Any = _of_jax("hlo", path)
    return content, HLO if hlo.kind_of_hlo(content) else STABLEHLO


def is_program_of_xla(content: bytes) -> bool:
    """True if bytes begin as a program that `subject_of` reads, or hold StableHLO."""
    is_ours = is_program(content) or graph_file.is_graph_file(content) or is_neff(content)
    return is_ours or b"ML\xefR" in content or b"stablehlo." in content


def subject_of(content: bytes, path: str, title: str, weights: Sequence[str] = ()) -> Subject:
    """The model whose graph is in the bytes of a file.

    Raises:
        BadInput: for bytes that hold no graph, and without JAX where they need it.
        NotModelled: for an operation that a graph does not have.
    """
    graph, kind = program_in(content, path)
    if kind == graph_file.FORMAT:
        return graph_file.parse_graph_file(graph, path)
    subject: Subject = _of_jax("exported", path).of_bytes(graph, path, title, weights)
    return subject


def _of_jax(module: str, path: str) -> Any:
    """A module of the room that reads StableHLO.

    Raises:
        BadInput: without JAX.
    """
    try:
        import_module("jaxlib")
    except ImportError as error:
        raise BadInput(
            f"{path}: a graph of HLO or StableHLO needs JAX", fix="pip install jax"
        ) from error
    return import_module(f"trnsim.jax.stablehlo.{module}")


def compile_program(
    content: bytes,
    path: str,
    flags: str | Sequence[str],
    target: str,
    *,
    flags_origin: str,
    title: str,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[ModelReport, StandIn]:
    """The report on the graph in a file for a chip, and the file in place of a NEFF.

    Args:
        content: the bytes of the file.
        path: its name, for errors.
        flags: flags of neuronx-cc; NEURON_CC_FLAGS is not read.
        target: the chip.
        flags_origin: the origin of `flags`, for errors.
        title: the model's name in the report.
        tell: function that takes messages on the progress.

    Raises:
        EmulatorError: the graph does not compile.
    """
    graph, kind = program_in(content, path)
    parsed_flags = Flags.parse(flags, flags_origin)
    report = report_model(subject_of(content, path, title), target, parsed_flags, tell=tell)
    words = program_flags(flags, target, report.program.lnc, flags_origin)
    return report, stored_program(report, words, kind, graph)
