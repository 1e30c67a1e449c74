"""The stored form of a traced program: a line that identifies it, a version, and JSON.

It is data: a list of operators of PyTorch's registry with their arguments, and the shapes of all
tensors. Nothing in it is unpickled, imported or evaluated, and an operator that does more than
compute is refused (`trnsim.torch.models.archive`). It does not contain the weights.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.compiler.stand_in import is_neff
from trnsim.errors import BadInput
from trnsim.torch.traces.encoding import DTYPES, INT_MAX, MalformedProgram, checked_index
from trnsim.torch.traces.kernels.kernel_checks import checked_kernel
from trnsim.torch.traces.kernels.stored_kernel import StoredKernel
from trnsim.version import VERSION

FORMAT_VERSION: Final = 2
"""The version of the form that this file writes. It reads version 1 too, which has no kernels."""
_VERSIONS: Final = tuple(map(str, range(1, FORMAT_VERSION + 1)))
HOST: Final = "host"
"""The target of a program whose operators run on the host."""
MAGIC: Final = b"trnsim traced program\n"
"""The first bytes of a stored program."""
_AWS_MAGIC: Final = (b"\x1f\x8b", b"NEFF")
"""First bytes of a NEFF: the header of a gzip archive, or its name."""
_BYTES_MAX: Final = 1 << 28
"""Maximum length of a stored program; one of 100,000 operators takes about 40 MB."""
_RANK_MAX: Final = 64
"""Maximum number of dimensions of a tensor of PyTorch's."""
_FIX: Final = "trace the model again: torch_neuronx.trace(model, example_inputs)"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor without values.

    Attributes:
        shape: its lengths.
        stride: its strides, in elements.
        dtype: its dtype, without "torch.".
        offset: the position of its first element in its storage, in elements.
    """

    shape: list[int]
    stride: list[int]
    dtype: str
    offset: int = 0

    @classmethod
    def of(cls, tensor: Tensor) -> StoredTensor:
        """The form of a tensor.

        Raises:
            MalformedProgram: for a dtype, or a layout, that programs do not have.
        """
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in DTYPES or tensor.layout is not torch.strided:
            raise MalformedProgram(f"a tensor of {tensor.dtype}, {tensor.layout}")
        return cls(list(tensor.shape), list(tensor.stride()), name, int(tensor.storage_offset()))

    def matches(self, tensor: Tensor) -> bool:
        """True if a tensor has this shape and dtype."""
        return list(tensor.shape) == self.shape and tensor.dtype is DTYPES[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call of an operator.

    Attributes:
        operator: its name, "aten.add.Tensor", or "getitem" for a part of several results.
        args: its arguments, as `encoding` writes them.
        kwargs: its arguments by name.
        result: a tensor, a list of tensors, or None for another result.
        place: the index of its place in the program's `places`.
    """

    operator: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: StoredTensor | list[StoredTensor | None] | None
    place: int = 0


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """A place in the model's code.

    Attributes:
        modules: path and class of each module that was being called, outermost first.
        line: the line, in PyTorch's format, or "".
    """

    modules: list[list[str]] = field(default_factory=list[list[str]])
    line: str = ""


@dataclass(frozen=True)
class StoredProgram:
    """A traced program.

    Attributes:
        title: the function or class that was traced.
        traced_at: the line of the program that traced it, or "".
        target: the chip that it was compiled for.
        cores: number of NeuronCores of the chip on which it runs together.
        flags: the flags of the compiler.
        weights: tensors that do not change from call to call, by name.
        inputs: tensors of a call, by name.
        calls: calls of operators, in order. Values are numbered: first weights, then inputs, then
            the results of calls.
        outputs: numbers of the values that are returned.
        aliases: for each state, the position of its weight and of the output that replaces it.
        places: places in the model's code.
        are_weights_apart: True if weights can be replaced.
        estimate: the output of `trnsim compile --json` for it.
        kernels: the NKI kernels that its calls name by number.
    """

    title: str
    traced_at: str
    target: str
    cores: int
    flags: list[str]
    weights: dict[str, StoredTensor]
    inputs: dict[str, StoredTensor]
    calls: list[StoredCall]
    outputs: list[int]
    aliases: list[list[int]] = field(default_factory=list[list[int]])
    places: list[StoredPlace] = field(default_factory=lambda: [StoredPlace()])
    are_weights_apart: bool = False
    estimate: dict[str, Any] = field(default_factory=dict[str, Any])
    kernels: list[StoredKernel] = field(default_factory=list[StoredKernel])

    @property
    def origin(self) -> str:
        """Title of the traced module, and the line of its trace where that is known."""
        return f"{self.title}, traced at {self.traced_at}" if self.traced_at else self.title

    def to_bytes(self) -> bytes:
        """The program as stored."""
        head = f"version {FORMAT_VERSION}, by trnsim {VERSION}\n".encode()
        members = asdict(replace(self, kernels=[])) | {
            "kernels": [k.to_json() for k in self.kernels]
        }
        return MAGIC + head + json.dumps(members, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> StoredProgram:
        """The program in bytes.

        Raises:
            BadInput: for bytes of another kind or version, or whose content is not a program.
        """
        version, text = _version_and_json(content)
        try:
            members = json.loads(text)
            if version == 1 and isinstance(members, dict):
                members.setdefault("kernels", [])
            return _checked_program(members)
        except (ValueError, RecursionError) as error:  # MalformedProgram is a ValueError
            raise BadInput(
                f"a traced program that holds {error}, which trnsim never writes",
                fix="do not trust the file; or " + _FIX,
            ) from None


def _version_and_json(content: bytes) -> tuple[int, bytes]:
    """The version of a stored program, and its JSON."""
    if not content.startswith(MAGIC):
        kind = (
            "a NEFF of AWS's compiler, which only a Neuron device runs"
            if is_neff(content) or content.startswith(_AWS_MAGIC)
            else "no program that trnsim traced"
        )
        raise BadInput(f"the module's program is {kind}: it begins {content[:16]!r}", fix=_FIX)
    if len(content) > _BYTES_MAX:
        raise BadInput(f"a traced program of more than {_BYTES_MAX:,} bytes", fix=_FIX)
    head, _, body = content[len(MAGIC) :].partition(b"\n")
    version = head.removeprefix(b"version ").partition(b",")[0].decode(errors="replace")
    if version not in _VERSIONS:
        raise BadInput(
            f"a traced program of {head[:60].decode(errors='replace')!r}; this trnsim {VERSION} "
            f"reads version {' and '.join(_VERSIONS)}",
            fix=f"{_FIX}; or install the trnsim that wrote it",
        )
    return int(version), body


def _checked_program(members: Any) -> StoredProgram:
    """The program of JSON, with every member checked."""
    _require_keys(members, StoredProgram, "a program")
    weights, inputs = (_named_tensors(members[name]) for name in ("weights", "inputs"))
    places = [_place(place) for place in _require_list(members["places"], "places")]
    calls = [_call(call, len(places)) for call in _require_list(members["calls"], "calls")]
    count = len(weights) + len(inputs) + len(calls)
    outputs = [
        checked_index(number, count, "an output")
        for number in _require_list(members["outputs"], "outputs")
    ]
    aliases = [
        _alias(pair, len(weights), len(outputs))
        for pair in _require_list(members["aliases"], "aliases")
    ]
    flags = [_require_text(flag, "a flag") for flag in _require_list(members["flags"], "flags")]
    kernels = [
        checked_kernel(kernel, f"kernels[{number}]")
        for number, kernel in enumerate(_require_list(members["kernels"], "kernels"))
    ]
    if not isinstance(members["estimate"], dict) or type(members["are_weights_apart"]) is not bool:
        raise MalformedProgram("an estimate of no figures")
    return StoredProgram(
        _require_text(members["title"], "a title"),
        _require_text(members["traced_at"], "a line"),
        _require_text(members["target"], "a chip"),
        checked_index(members["cores"], 1 << 8, "cores"),
        flags,
        weights,
        inputs,
        calls,
        outputs,
        aliases,
        places,
        members["are_weights_apart"],
        members["estimate"],
        kernels,
    )


def _require_keys(value: Any, kind: type[Any], subject: str) -> None:
    names = {member.name for member in fields(kind)}
    if not isinstance(value, dict) or set(value) != names:
        raise MalformedProgram(f"{subject} of other members than {', '.join(sorted(names))}")


def _require_list(value: Any, subject: str) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedProgram(f"{subject} that are no list")
    return value


def _require_text(value: Any, subject: str) -> str:
    if not isinstance(value, str):
        raise MalformedProgram(f"{subject} that is no text")
    return value


def _alias(pair: Any, weights: int, outputs: int) -> list[int]:
    if len(_require_list(pair, "a state")) != 2:  # noqa: PLR2004  a weight and an output
        raise MalformedProgram("a state of other than two numbers")
    return [
        checked_index(pair[0], weights, "a state's weight"),
        checked_index(pair[1], outputs, "its output"),
    ]


def _named_tensors(value: Any) -> dict[str, StoredTensor]:
    if not isinstance(value, dict):
        raise MalformedProgram("tensors without names")
    return {name: _tensor(tensor) for name, tensor in value.items()}


def _tensor(value: Any) -> StoredTensor:
    _require_keys(value, StoredTensor, "a tensor")
    shape, stride, offset = value["shape"], value["stride"], value["offset"]
    for number in (*_require_list(shape, "lengths"), *_require_list(stride, "strides"), offset):
        checked_index(number, INT_MAX, "a length")
    dtype = _require_text(value["dtype"], "a dtype")
    if len(shape) != len(stride) or len(shape) > _RANK_MAX or dtype not in DTYPES:
        raise MalformedProgram(f"a tensor {str(value)[:80]}")
    return StoredTensor(shape, stride, dtype, offset)


def _place(value: Any) -> StoredPlace:
    _require_keys(value, StoredPlace, "a place")
    modules = [
        [_require_text(part, "a module") for part in _require_list(pair, "a module")]
        for pair in _require_list(value["modules"], "modules")
    ]
    if any(len(pair) != 2 for pair in modules):  # noqa: PLR2004  a path and a class
        raise MalformedProgram("a module of other than a path and a class")
    return StoredPlace(modules, _require_text(value["line"], "a line"))


def _call(value: Any, places: int) -> StoredCall:
    _require_keys(value, StoredCall, "a call")
    kwargs = value["kwargs"]
    if not isinstance(kwargs, dict):
        raise MalformedProgram("arguments without names")
    return StoredCall(
        _require_text(value["operator"], "an operator"),
        _require_list(value["args"], "arguments"),
        kwargs,
        _result(value["result"]),
        checked_index(value["place"], places, "a place"),
    )


def _result(value: Any) -> StoredTensor | list[StoredTensor | None] | None:
    if isinstance(value, list):
        return [None if part is None else _tensor(part) for part in value]
    return None if value is None else _tensor(value)
