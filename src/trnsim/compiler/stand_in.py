"""The file in place of a NEFF: text that says what it is, then the graph that was compiled.

    trnsim program 1
    This file stands in place of a NEFF. ...
    SHA-256 of all that follows
    {"target": ..., "flags": ..., "graph_format": ..., "graph_bytes": ..., "report": ...}
    the graph's bytes

AWS's runtime and tools do not take it for a NEFF: it has eight bytes of text where a NEFF states
that its header has 1,024 bytes. It is data and holds no code.

Source of a NEFF's header: aws-neuron-sdk neuron-runtime/explore/work-with-neff-files.rst.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.errors import BadInput

MAGIC: Final = b"trnsim program "
FORMAT_VERSION: Final = 1
WORDS: Final = (
    "This file stands in place of a NEFF. It holds a graph and trnsim's estimate of its program, "
    "and no instructions: AWS's runtime cannot load it. neuronx-cc of AWS makes one that it can."
)
_LINES: Final = 4
"""Lines before the graph."""
_HEADER_LINE_MAX: Final = 1 << 26
_HEADER_BYTES: Final = 1024
_HEADER_SIZE_AT: Final = slice(8, 16)
_MAJOR_AT: Final = slice(24, 32)
_MINOR_AT: Final = slice(32, 40)
_VERSION_MOST: Final = 1000
_SOURCE: Final = "aws-neuron-sdk neuron-runtime/explore/work-with-neff-files.rst"
_FIX: Final = "give the file that neuronx-cc or torch_neuronx of trnsim wrote"


@dataclass(frozen=True)
class StandIn:
    """The content of a file in place of a NEFF.

    Attributes:
        lnc: number of physical cores of a logical core.
        flags: the compiler's flags, in order.
        graph_format: the format of the graph: hlo, stablehlo, or a framework's own.
        report: the estimate, as `trnsim compile --json` has it.
    """

    target: str
    lnc: int
    flags: tuple[str, ...]
    compiler: str
    graph_format: str
    graph: bytes = field(repr=False)
    report: dict[str, Any] = field(repr=False)

    def serialized(self) -> bytes:
        """The bytes of the file."""
        header = {
            "target": self.target,
            "lnc": self.lnc,
            "flags": list(self.flags),
            "compiler": self.compiler,
            "graph_format": self.graph_format,
            "graph_bytes": len(self.graph),
            "report": self.report,
        }
        body = json.dumps(header).encode() + b"\n" + self.graph
        start = f"{MAGIC.decode()}{FORMAT_VERSION}\n{WORDS}\n{_digest(body)}\n".encode()
        return start + body


def is_neff(content: bytes) -> bool:
    """True if the bytes begin with the header of a NEFF of AWS's compiler."""
    if len(content) <= _HEADER_BYTES:
        return False
    sizes = (content[place] for place in (_HEADER_SIZE_AT, _MAJOR_AT))
    header_bytes, major = (int.from_bytes(part, "little") for part in sizes)
    return header_bytes == _HEADER_BYTES and major < _VERSION_MOST


def refuse_neff(content: bytes, path: str) -> None:
    """Refuse a NEFF of AWS's compiler.

    Raises:
        BadInput: the bytes are a NEFF.
    """
    if is_neff(content):
        parts = (content[place] for place in (_MAJOR_AT, _MINOR_AT))
        version = ".".join(str(int.from_bytes(part, "little")) for part in parts)
        raise BadInput(
            f"{path} is a NEFF of AWS's compiler, version {version}: its instructions are the "
            "chip's, and trnsim does not read them",
            fix="give the graph that it was compiled from: HLO (model.hlo_module.pb beside it in "
            "the cache) or StableHLO",
            source=_SOURCE,
        )


def is_program(content: bytes) -> bool:
    """True if the bytes begin as a file in place of a NEFF."""
    return content.startswith(MAGIC)


def parse_program(content: bytes, path: str) -> StandIn:
    """The program in a file in place of a NEFF; every part is checked.

    Raises:
        BadInput: it is a NEFF by AWS, of another version, was cut off or changed, or is no
            program.
    """
    refuse_neff(content, path)
    if not is_program(content):
        raise BadInput(f"{path} is no program of trnsim", fix=_FIX)
    lines = content.split(b"\n", _LINES - 1)
    version = lines[0].removeprefix(MAGIC)
    if version != str(FORMAT_VERSION).encode():
        raise BadInput(
            f"{path} is a program of trnsim in format {version[:20]!r}; this one reads "
            f"{FORMAT_VERSION}",
            fix="compile the graph again with this version",
        )
    if len(lines) < _LINES or lines[2] != _digest(lines[-1]).encode():
        raise BadInput(f"{path}: the program was cut off or changed", fix="compile it again")
    header, _, graph = lines[-1].partition(b"\n")
    if len(header) > _HEADER_LINE_MAX:
        raise BadInput(
            f"{path}: its header has {len(header):,} bytes; legal: at most {_HEADER_LINE_MAX:,}",
            fix=_FIX,
        )
    return _parse_header_and_graph(header, graph, path)


def _parse_header_and_graph(header: bytes, graph: bytes, path: str) -> StandIn:
    """The program of a header and a graph.

    Raises:
        BadInput: for a header in which a field is missing or has another type.
    """
    try:
        values = json.loads(header)
        flags, report = values["flags"], values["report"]
        is_legal = (
            values["graph_bytes"] == len(graph)
            and isinstance(report, dict)
            and type(values["lnc"]) is int
            and isinstance(flags, list)
            and all(isinstance(flag, str) for flag in flags)
            and all(isinstance(values[name], str) for name in _TEXTS)
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path}: no header of a program: {error!r}"[:500], fix=_FIX) from error
    if not is_legal:
        raise BadInput(f"{path}: the header of the program contradicts its content", fix=_FIX)
    texts: dict[str, str] = {name: values[name] for name in _TEXTS}
    return StandIn(lnc=values["lnc"], flags=tuple(flags), graph=graph, report=report, **texts)


_TEXTS: Final[Sequence[str]] = ("target", "compiler", "graph_format")


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
