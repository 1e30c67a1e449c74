"""The archive of an exported program, read without running or importing any of its code.

PyTorch's own reader unpickles members of an archive, looks targets up by any name below `torch`,
evaluates expressions of sizes, imports the modules of enumerations and executes code that it writes
with the names of values in it. So the program's JSON is checked here against a list of permitted
content before PyTorch sees it; only shapes of tensors are read, and no other member.

Sources: torch/export/pt2_archive/constants.py (members), torch/_export/serde/schema.py (JSON).
"""

from __future__ import annotations

import json
import keyword
import re
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from trnsim.errors import BadInput
from trnsim.torch import pytorch

_MODEL_MEMBER: Final = "models/model.json"
_WEIGHTS_MEMBER: Final = "data/weights/model_weights_config.json"
_CONSTANTS_MEMBER: Final = "data/constants/model_constants_config.json"
_JSON_BYTES_MAX: Final = 1 << 30
"""Maximum length of a member; the JSON of a program of 100,000 operators takes about 100 MB."""

_VALUE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_TARGET: Final = re.compile(
    r"torch\.ops\.(?P<library>[A-Za-z_]\w*)\.(?P<name>[A-Za-z_]\w*)(\.[A-Za-z]\w*)?"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|getitem)"
    r"|math\.trunc|torch\.sym_(float|int|max|min|not|ite)|torch\._sym_sqrt"
)
"""Operators of PyTorch's registry, and functions of numbers: no powers and shifts, which may never
end."""
_LIBRARIES_NOT_COMPUTING: Final = frozenset(
    {
        *("prim", "c10d", "symm_mem", "profiler", "debugprims", "debug_mode_ops"),
        *("static_runtime", "inductor", "neuron"),
    }
)
"""Libraries whose operators do not only compute tensors: they also print, communicate, load
programs, write files, or read beyond the memory of a tensor."""
_OPERATORS_NOT_COMPUTING: Final = frozenset({"aten.from_file", "aten._print", "higher_order.print"})
"""Operators of libraries that otherwise only compute: these read files or print."""
_SYMBOL: Final = r"[suz]+f?\d{1,9}"
_NUMBER: Final = r"\d{1,20}(?:\.\d{0,20})?(?:e[+-]?\d{1,3})?"
_SIZE_FUNCTIONS: Final = (
    r"Symbol|Integer|Float|Rational|Add|Mul|Max|Min|Mod|PythonMod|Where|Identity|FloorDiv|CleanDiv"
    r"|CeilDiv|CeilToInt|FloorToInt|TruncToInt|TruncToFloat|RoundToInt|RoundDecimal|ToFloat"
    r"|ModularIndexing|FloatTrueDiv|IntTrueDiv"
    r"|IsNonOverlappingAndDenseIndicator|Equality|Unequality|LessThan|GreaterThan|StrictLessThan"
    r"|StrictGreaterThan|Eq|Ne|Le|Lt|Ge|Gt|And|Or|Not"
)
_SYMBOL_ASSUMPTIONS: Final = (
    "integer|positive|negative|nonnegative|real|precision|True|False|oo|int_oo"
)
_EXPRESSION: Final = re.compile(
    rf"(?:Pow\(Symbol\('{_SYMBOL}'[a-zA-Z=, ]*\), Integer\(-?\d\d?\)\)|'(?:{_SYMBOL}|-?{_NUMBER})'"
    rf"|\b(?:{_SYMBOL}|{_SIZE_FUNCTIONS}|{_SYMBOL_ASSUMPTIONS})\b|{_NUMBER}|[-+*/%(),=<>&|~ ])*+"
)
"""Expressions of sizes as PyTorch writes them, without powers and shifts that may never end."""
_UNREAD_METADATA: Final = frozenset({"source_fn_stack", "from_node", "custom"})
"""Metadata of nodes that is not needed here."""
_DEFAULT_FACTORIES: Final = frozenset({"dict", "float", "int", "list", "set", "str", "tuple"})


def read_program(path: Path, fix: str) -> torch.export.ExportedProgram:
    """The exported program in a file, whose weights are tensors without values.

    `fix` is the remedy in the errors.

    Raises:
        BadInput: for a file that is no archive, lacks a member, or has content that PyTorch's
            exporter does not write.
        Exception: any, where PyTorch cannot build the program.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            program = _member_json(path, archive, _MODEL_MEMBER, fix)
            weights = _member_json(path, archive, _WEIGHTS_MEMBER, fix)
            constants = _member_json(path, archive, _CONSTANTS_MEMBER, fix)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise BadInput(f"{path} is no exported program: {error}", fix=fix) from error
    try:
        _check_program(program)
    except _UnexpectedContent as unexpected:
        raise BadInput(
            f"{path} holds {unexpected}, which is not read: it could run code",
            fix="do not trust the file; or " + fix,
        ) from None
    # Code that checks the inputs of a call; the program is never called.
    program["guards_code"] = []
    return pytorch.exported_program(program, _tensors(weights), _tensors(constants))


def _member_json(path: Path, archive: zipfile.ZipFile, member: str, fix: str) -> Any:
    """The JSON of a member, which lies below one folder of any name."""
    for name in archive.namelist():
        if name.partition("/")[2] == member:
            with archive.open(name) as stream:
                text = stream.read(_JSON_BYTES_MAX + 1)
            if len(text) > _JSON_BYTES_MAX:
                raise BadInput(
                    f"{path}: {member} is longer than {_JSON_BYTES_MAX:,} bytes", fix=fix
                )
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                raise BadInput(f"{path}: {member} is not JSON: {error}", fix=fix) from error
    raise BadInput(f"{path} is no exported program: it has no {member}", fix=fix)


class _UnexpectedContent(Exception):
    """Content that PyTorch's exporter does not write."""


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Each object within JSON, without recursion, as JSON may be nested deeply."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _check_program(program: Any) -> None:
    """Refuse content that could run code; remove metadata that is not read.

    Raises:
        _UnexpectedContent: for the first such content.
    """
    if not isinstance(program, dict):
        raise _UnexpectedContent(f"a program that is a {type(program).__name__}")
    for item in _objects(program):
        for key, value in item.items():
            _check_field(key, value)
        metadata = item.get("metadata")
        if isinstance(metadata, dict):
            item["metadata"] = {
                key: text for key, text in metadata.items() if key not in _UNREAD_METADATA
            }
        if "target" in item and "inputs" in item:
            _check_target(item["target"])


def _check_field(key: str, value: Any) -> None:
    """Check one entry of an object by its key; values of other types are PyTorch's to refuse."""
    if key in ("name", "as_name") and isinstance(value, str) and value:
        if not _VALUE_NAME.fullmatch(value) or any(map(keyword.iskeyword, value.split("."))):
            raise _UnexpectedContent(f"a value called {value!r}")
    elif key == "as_operator":
        _check_target(value)
    elif key == "expr_str" and isinstance(value, str):
        if not _EXPRESSION.fullmatch(value) or "**" in value:
            raise _UnexpectedContent(f"a size {value!r}")
    elif key in ("in_spec", "out_spec") and isinstance(value, str):
        _check_structure(value)
    elif key in ("as_custom_obj", "as_graph_module"):
        raise _UnexpectedContent("an object of Python")


def _check_target(target: Any) -> None:
    """Check that a target is a registered operator, or a function of numbers."""
    match = _TARGET.fullmatch(target) if isinstance(target, str) else None
    if match is None or (
        match["name"] is not None and not only_computes(match["library"], match["name"])
    ):
        raise _UnexpectedContent(f"a call of {target!r}")


def only_computes(library: str, name: str) -> bool:
    """True if the operator `torch.ops.<library>.<name>` computes tensors and does nothing else."""
    return not (
        library in _LIBRARIES_NOT_COMPUTING
        or f"{library}.{name}" in _OPERATORS_NOT_COMPUTING
        or hasattr(type(torch.ops), library)
        or hasattr(type(torch.ops.aten), name)
        or (library == "aten" and _exists_only_in_torchscript(name))
    )


def _exists_only_in_torchscript(name: str) -> bool:
    """True if an operator of `aten` exists only in TorchScript's interpreter, as `aten::save` does.

    Those write files, print, raise errors and take values from a stack without checks.
    """
    return f"aten::{name}" not in _registered_operators() and hasattr(torch.ops.aten, name)


@cache
def _registered_operators() -> frozenset[str]:
    """Operators that PyTorch's dispatcher knows, without their overloads."""
    return frozenset(name.partition(".")[0] for name in pytorch.operators())


def _check_structure(text: str) -> None:
    """Check that the structure of inputs or outputs names no class to be imported."""
    try:
        structure = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _UnexpectedContent(f"a structure {text[:80]!r}") from error
    for item in _objects(structure):
        _check_context(item)
        context = item.get("context")
        if isinstance(context, str):  # JSON within JSON
            try:
                context_content = json.loads(context)
            except (ValueError, RecursionError):
                continue
            for inner_item in _objects(context_content):
                _check_context(inner_item)


def _check_context(item: dict[str, Any]) -> None:
    """Check that a container's keys are no enumeration, and its default one of Python's types."""
    if "__enum__" in item:
        raise _UnexpectedContent(f"a member of the enumeration {item.get('fqn')!r}")
    if "default_factory_module" in item and (
        item["default_factory_module"] != "builtins"
        or item.get("default_factory_name") not in _DEFAULT_FACTORIES
    ):
        name = f"{item['default_factory_module']}.{item.get('default_factory_name')}"
        raise _UnexpectedContent(f"a default made by {name!r}")


def _tensors(configuration: Any) -> dict[str, torch.Tensor]:
    """Tensors of the shapes and types that a configuration of weights names, without values.

    Their memory is never written, so the system allocates none.
    """
    rows = configuration.get("config") if isinstance(configuration, dict) else None
    if not isinstance(rows, dict):
        raise TypeError("a configuration of weights is missing")
    tensors: dict[str, torch.Tensor] = {}
    for name, row in rows.items():
        meta = row.get("tensor_meta") if isinstance(row, dict) else None
        if not isinstance(meta, dict):
            raise TypeError(f"{name} is no tensor; export a model whose weights are tensors")
        tensor = torch.empty_strided(
            _sizes(meta["sizes"]),
            _sizes(meta["strides"]),
            dtype=pytorch.serialized_dtype(meta["dtype"]),
            device="meta" if meta["device"]["type"] == "meta" else "cpu",
        )
        tensors[name] = (
            torch.nn.Parameter(tensor, requires_grad=False) if row["is_param"] else tensor
        )
    return tensors


def _sizes(sizes: Any) -> list[int]:
    """Lengths or strides, each of which is stored as ``{"as_int": 5}``."""
    return [int(size["as_int"]) for size in sizes]
