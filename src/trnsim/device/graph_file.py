"""A model's graph as a file, which `trnsim compile` reads without the model's framework.

    trnsim graph 1
    SHA-256 of all that follows
    {"title": .., "weights": [..], "names": .., "operators": [..], "origins": [..], "graph": ..}

It is JSON alone, and holds no values of weights and no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.compiler.ncc.calls import CallTensor, FrameworkCall
from trnsim.device.model_report import FrameworkGraph, ImportedGraph, Subject
from trnsim.errors import BadInput, SourceLine
from trnsim.graph import Graph
from trnsim.graph.origin import Origin
from trnsim.graph.stored import graph_from_plain, plain_graph

FORMAT: Final = "trnsim-graph"
"""The format's name inside a file that stands in for a NEFF."""
MAGIC: Final = b"trnsim graph "
FORMAT_VERSION: Final = 1
_LINES: Final = 3
"""Number of lines of a file."""
_FIX: Final = "collect the graphs again with this version (neuron_parallel_compile)"
_NUMBER_END: Final = 1 << 31


@dataclass(frozen=True)
class GraphFile:
    """A stored graph, as `trnsim.device.model_report.FrameworkGraph` has it.

    Attributes:
        weights: the numbers of its inputs that are the same at every step.
        names: the names of its inputs, by number.
        operators: the operators of the framework's program, in order.
        missing: operators without a lowering, each with the reason.
        calls: the operators with the arguments that JSON can hold.
        origins: the call that a value came from, by the value's number.
    """

    graph: Graph = field(repr=False)
    weights: frozenset[int] = frozenset()
    names: dict[int, str] = field(default_factory=dict[int, str])
    operators: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    calls: tuple[FrameworkCall, ...] = ()
    origins: dict[int, FrameworkCall] = field(default_factory=dict[int, FrameworkCall], repr=False)

    @classmethod
    def of(cls, imported: ImportedGraph, weights: frozenset[int] = frozenset()) -> GraphFile:
        """A graph that a framework's importer made, and which of its inputs are weights."""
        return cls(
            imported.graph,
            weights,
            imported.names,
            imported.operators,
            imported.missing,
            imported.calls,
            imported.origins,
        )


def graph_bytes(subject: Subject) -> bytes:
    """The file of a model's graph.

    Raises:
        NotModelled: it calls a kernel of the user's own.
    """
    model = subject.model_graph
    origins: dict[Origin, int] = {}
    graph = plain_graph(model.graph, lambda origin: origins.setdefault(origin, len(origins)))
    numbers_by_call: dict[int, list[int]] = {}
    for number, call in model.origins.items():
        numbers_by_call.setdefault(id(call), []).append(number)
    calls = {id(call): call for call in (*model.calls, *model.origins.values())}
    call_ids = {id(call) for call in model.calls}
    values = {
        "title": subject.title,
        "items": list(subject.items),
        "weights": sorted(model.weights),
        "names": {str(number): name for number, name in sorted(model.names.items())},
        "operators": list(model.operators),
        "missing": list(model.missing),
        "calls": [
            [_plain_call(call), numbers_by_call.get(key, []), key in call_ids]
            for key, call in calls.items()
        ],
        "origins": [
            [origin.module, origin.operator, _plain_line(origin.line)] for origin in origins
        ],
        "graph": graph,
    }
    body = json.dumps(values, separators=(",", ":")).encode()
    return f"{MAGIC.decode()}{FORMAT_VERSION}\n{_digest(body)}\n".encode() + body


def graph_key(subject: Subject) -> bytes:
    """Bytes that are equal for equal programs: a graph without names, lines and titles.

    Raises:
        NotModelled: it calls a kernel of the user's own.
    """
    model = subject.model_graph
    values = {"graph": plain_graph(model.graph), "weights": sorted(model.weights)}
    return json.dumps(values, separators=(",", ":")).encode()


def is_graph_file(content: bytes) -> bool:
    """True if the bytes begin like a graph file."""
    return content.startswith(MAGIC)


def parse_graph_file(content: bytes, path: str) -> Subject:
    """The model's graph in a graph file; every part is checked.

    Raises:
        BadInput: it is of another version, was cut off or changed, or holds no legal graph.
    """
    lines = content.split(b"\n", _LINES - 1)
    version = lines[0].removeprefix(MAGIC)
    if version != str(FORMAT_VERSION).encode():
        raise BadInput(
            f"{path} is a graph of trnsim in format {version[:20]!r}; this one reads "
            f"{FORMAT_VERSION}",
            fix=_FIX,
        )
    if len(lines) < _LINES or lines[1] != _digest(lines[2]).encode():
        raise BadInput(f"{path}: the graph was cut off or changed", fix=_FIX)
    try:
        values = json.loads(lines[2])
        return _subject(values)
    except BadInput as error:
        raise BadInput(f"{path}: {error.reason}", fix=_FIX) from error
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path} holds no graph: {error!r}"[:500], fix=_FIX) from error


def _subject(values: Mapping[str, Any]) -> Subject:
    origins = [
        Origin(str(module), str(operator), _line(line))
        for module, operator, line in values["origins"]
    ]
    calls = [(_call(call), numbers, is_of_model) for call, numbers, is_of_model in values["calls"]]
    name, count = values["items"]
    model: FrameworkGraph = GraphFile(
        graph_from_plain(values["graph"], origins),
        frozenset(_whole_number(number) for number in values["weights"]),
        {int(number): str(text) for number, text in values["names"].items()},
        _texts(values["operators"]),
        _texts(values["missing"]),
        tuple(call for call, _, is_of_model in calls if is_of_model),
        {_whole_number(number): call for call, numbers, _ in calls for number in numbers},
    )
    return Subject(str(values["title"]), model, (str(name), _whole_number(count)))


def _plain_call(call: FrameworkCall) -> list[Any]:
    arguments = {name: _plain_argument(value) for name, value in call.arguments.items()}
    plain = {name: value for name, value in arguments.items() if value is not _NOT_PLAIN}
    results = [_plain_argument(tensor) for tensor in call.results]
    return [call.operator, call.name, plain, results, _plain_line(call.line), call.reason]


_NOT_PLAIN: Final = object()
"""Placeholder of an argument that JSON cannot hold."""


def _plain_argument(value: Any) -> Any:
    if isinstance(value, CallTensor):
        return {"tensor": [list(value.shape), value.dtype]}
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, list | tuple):
        parts = [_plain_argument(part) for part in value]
        return _NOT_PLAIN if any(part is _NOT_PLAIN for part in parts) else parts
    return _NOT_PLAIN


def _call(values: Any) -> FrameworkCall:
    operator, name, arguments, results, line, reason = values
    return FrameworkCall(
        str(operator),
        str(name),
        {str(key): _argument(value) for key, value in arguments.items()},
        tuple(_tensor(value) for value in results),
        _line(line),
        str(reason),
    )


def _argument(value: Any) -> Any:
    if isinstance(value, dict):
        return _tensor(value)
    return [_argument(part) for part in value] if isinstance(value, list) else value


def _tensor(value: Any) -> CallTensor:
    shape, dtype = value["tensor"]
    lengths = tuple(None if length is None else _whole_number(length) for length in shape)
    return CallTensor(lengths, str(dtype))


def _plain_line(line: SourceLine | None) -> list[Any] | None:
    return None if line is None else [line.file, line.line]


def _line(values: Any) -> SourceLine | None:
    if values is None:
        return None
    file, number = values
    return SourceLine(str(file), _whole_number(number))


def _whole_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _NUMBER_END:
        raise ValueError(f"{value!r} for a whole number")
    return value


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
