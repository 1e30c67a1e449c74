"""The text of a program, in the form of torch_xla's `_get_xla_tensors_text`.

IR {
  %0 = f32[4]{0} xla::device_data(), xla_shape=f32[4]{0}
  %1 = f32[4]{0} aten::exp(%0), xla_shape=f32[4]{0}, ROOT=0
}
"""

from __future__ import annotations

from typing import Any, Final

import torch

from trnsim.xla.cuts.programs import CutProgram, Reference
from trnsim.xla.cuts.values import EXCHANGE, HostNumber

_ORDER: Final = "f32[]"
"""The last result of a collective, which orders it among others."""

_DTYPES: Final = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "s64",
    torch.int32: "s32",
    torch.int16: "s16",
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.bool: "pred",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def ir_text(program: CutProgram) -> str:
    """A program as text; inputs have the first numbers."""
    first_call = len(program.inputs)
    lines = [
        _line(number, _input_shape(value), "xla::device_data()")
        for number, value in enumerate(program.inputs)
    ]
    roots = {reference.call: index for index, reference in enumerate(program.outputs)}
    for call, (node, references) in enumerate(zip(program.nodes, program.operands, strict=True)):
        operands = ", ".join(_operand(reference, first_call) for reference in references)
        results = [_shape(shape, dtype) for shape, _, _, dtype in node.signature.results]
        name = node.signature.name.replace(" ", "_")
        if name.startswith(EXCHANGE):
            results.append(_ORDER)
        shape = results[0] if len(results) == 1 else f"({', '.join(results)})"
        root = f", ROOT={roots[call]}" if call in roots else ""
        qualified_name = name if "::" in name else f"aten::{name}"
        lines.append(_line(first_call + call, shape, f"{qualified_name}({operands})") + root)
    return "IR {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _line(number: int, shape: str, call: str) -> str:
    return f"%{number} = {shape} {call}, xla_shape={shape}"


def _operand(reference: Reference, first_call: int) -> str:
    if reference.call < 0:
        return f"%{reference.index}"
    return f"%{first_call + reference.call}" + (f".{reference.index}" if reference.index else "")


def _input_shape(value: Any) -> str:
    return _shape((), value.dtype) if isinstance(value, HostNumber) else _shape(value[0], value[3])


def _shape(shape: tuple[int, ...], dtype: Any) -> str:
    name = _DTYPES.get(dtype, str(dtype).removeprefix("torch."))
    layout = ",".join(map(str, reversed(range(len(shape)))))
    return f"{name}[{','.join(map(str, shape))}]" + (f"{{{layout}}}" if shape else "")
