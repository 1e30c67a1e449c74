"""`torch_neuronx.proto.metaneff_pb2`: the tensors of a traced program, by their kind.

The classes have the names of AWS's protobuf that neuronx-distributed reads and writes, and are
stored as JSON behind a line that says what they are.

Source: neuronx-distributed trace/functions.py and trace/nxd_model/nxd_model.py, which use them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.dispatch.host_arrays import tensor_of_bytes
from trnsim.torch.traces.encoding import DTYPES
from trnsim.torch.traces.stored import StoredProgram, StoredTensor

_MAGIC: Final = b"trnsim tensors of a traced program\n"
_DTYPE_NUMBERS: Final = {name: number for number, name in enumerate(DTYPES)}
_FIX: Final = "trace the model again"


class TensorType(IntEnum):
    """The kind of a tensor of a program."""

    USER_INPUT = 0
    INPUT_WEIGHT = 1
    INPUT_STATE = 2
    OUTPUT = 3


@dataclass
class MetaTensor:
    """A tensor of a program.

    Attributes:
        data_type: the number of its dtype, which `get_torch_dtype` translates.
        checkpoint_key: the name of a weight or a state in the model's state_dict, else b"".
        user_input_key: the name of an input's parameter, else b"".
    """

    Type: ClassVar = TensorType
    name: str = ""
    type: int = TensorType.USER_INPUT
    shape: list[int] = field(default_factory=list[int])
    data_type: int = 0
    checkpoint_key: bytes = b""
    user_input_key: bytes = b""


class MetaNeff:
    """The tensors of a program.

    Attributes:
        name: the name of the traced function or class.
        input_tensors: inputs of a call, then states and weights, as the program takes them.
        output_aliases_to: for each result that is a new state, the place of the state.
        constants: tensors that the program needs and no state_dict has, by name.
        serialized_graph_def: the traced program.
    """

    def __init__(self) -> None:
        self.name = b""
        self.input_tensors: list[MetaTensor] = []
        self.output_tensors: list[MetaTensor] = []
        self.output_aliases_to: dict[int, int] = {}
        self.constants: dict[str, Tensor] = {}
        self.serialized_graph_def = b""

    @classmethod
    def of(cls, program: StoredProgram, constants: Mapping[str, Tensor]) -> MetaNeff:
        """The tensors of a program; its weights named in `constants` are not in the checkpoint."""
        meta = cls()
        meta.name = program.title.encode()
        states = {weight for weight, _ in program.aliases}
        meta.input_tensors = [
            _meta_tensor(name, TensorType.USER_INPUT, form) for name, form in program.inputs.items()
        ]
        for place, (name, form) in enumerate(program.weights.items()):
            if name not in constants:
                kind = TensorType.INPUT_STATE if place in states else TensorType.INPUT_WEIGHT
                meta.input_tensors.append(_meta_tensor(name, kind, form, name.encode()))
        names = [tensor.name for tensor in meta.input_tensors]
        weights = list(program.weights)
        for place, value in enumerate(program.outputs):
            form = _result_form(program, value)
            meta.output_tensors.append(_meta_tensor(f"output_{place}", TensorType.OUTPUT, form))
        meta.output_aliases_to = {
            place: names.index(weights[weight_index]) for weight_index, place in program.aliases
        }
        meta.constants = dict(constants)
        meta.serialized_graph_def = program.to_bytes()
        return meta

    def SerializeToString(self) -> bytes:  # noqa: N802  a protobuf's name
        """The tensors as bytes."""
        members = {
            "name": self.name.decode(),
            "input_tensors": [_to_json(tensor) for tensor in self.input_tensors],
            "output_tensors": [_to_json(tensor) for tensor in self.output_tensors],
            "output_aliases_to": list(self.output_aliases_to.items()),
            "constants": {
                name: _constant_to_json(tensor) for name, tensor in self.constants.items()
            },
            "serialized_graph_def": self.serialized_graph_def.decode(),
        }
        return _MAGIC + json.dumps(members, separators=(",", ":")).encode()

    def ParseFromString(self, content: bytes) -> None:  # noqa: N802  a protobuf's name
        """Replace the attributes by the values stored in `content`.

        Raises:
            BadInput: for bytes that `SerializeToString` did not write.
        """
        if not content.startswith(_MAGIC):
            raise BadInput(
                f"tensors of a program that begin {bytes(content[:16])!r}, which trnsim never "
                "writes",
                fix=_FIX,
                line=program_line(),
            )
        try:
            members = json.loads(content[len(_MAGIC) :])
            self.name = str(members["name"]).encode()
            self.input_tensors = [_meta_tensor_of_json(row) for row in members["input_tensors"]]
            self.output_tensors = [_meta_tensor_of_json(row) for row in members["output_tensors"]]
            self.output_aliases_to = {int(a): int(b) for a, b in members["output_aliases_to"]}
            self.constants = {
                str(name): _constant_of_json(row) for name, row in members["constants"].items()
            }
            self.serialized_graph_def = str(members["serialized_graph_def"]).encode()
        except (
            *(KeyError, TypeError, ValueError),
            *(AttributeError, RuntimeError, OverflowError),
        ) as error:
            raise BadInput(
                f"tensors of a program with {error}, which trnsim never writes",
                fix=f"do not trust the file; or {_FIX}",
                line=program_line(),
            ) from error


def _meta_tensor(name: str, kind: TensorType, form: StoredTensor, key: bytes = b"") -> MetaTensor:
    return MetaTensor(name, kind, list(form.shape), _DTYPE_NUMBERS[form.dtype], key)


def _result_form(program: StoredProgram, number: int) -> StoredTensor:
    """The shape, strides and dtype of a value of a program by its number."""
    leaves = [*program.weights.values(), *program.inputs.values()]
    if number < len(leaves):
        return leaves[number]
    result = program.calls[number - len(leaves)].result
    if not isinstance(result, StoredTensor):
        raise BadInput(f"{program.origin} returns what is no tensor", fix=_FIX)
    return result


def _to_json(tensor: MetaTensor) -> dict[str, Any]:
    keys = {"checkpoint_key": tensor.checkpoint_key, "user_input_key": tensor.user_input_key}
    return {**asdict(tensor), **{name: key.decode() for name, key in keys.items()}}


def _meta_tensor_of_json(members: Mapping[str, Any]) -> MetaTensor:
    return MetaTensor(
        str(members["name"]),
        TensorType(members["type"]),
        [int(length) for length in members["shape"]],
        int(members["data_type"]),
        str(members["checkpoint_key"]).encode(),
        str(members["user_input_key"]).encode(),
    )


def _constant_to_json(tensor: Tensor) -> dict[str, Any]:
    """A constant's shape, strides, dtype and values."""
    dense = tensor.detach().cpu().contiguous()
    content = dense.reshape(-1).view(torch.uint8).numpy().tobytes()
    return {**asdict(StoredTensor.of(dense)), "values": base64.b64encode(content).decode()}


def _constant_of_json(members: Mapping[str, Any]) -> Tensor:
    content = bytearray(base64.b64decode(members["values"], validate=True))
    dtype, shape = DTYPES[members["dtype"]], [int(length) for length in members["shape"]]
    return tensor_of_bytes(content, dtype).reshape(shape)


def get_torch_dtype(data_type: int) -> torch.dtype:
    """PyTorch's dtype of a number in `data_type`.

    Raises:
        BadInput: for a number of no dtype.
    """
    dtypes = list(DTYPES.values())
    if data_type not in range(len(dtypes)):
        raise BadInput(
            f"data_type {data_type!r}; legal: 0 to {len(dtypes) - 1}, as a MetaTensor has it",
            fix="get_torch_dtype(tensor.data_type)",
            line=program_line(),
        )
    return dtypes[int(data_type)]
