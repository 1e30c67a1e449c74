"""Calls of NKI kernels in programs of JAX: AWS's custom call, and the kernel for which it stands.

AWS's call names the file of a compiled kernel. Here a kernel is a function of Python, and the call
names its number in the process that made the program.

Source: nki/guides/framework_custom_op.rst, JAX.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from trnsim.device.kernel_call import KernelCall
from trnsim.errors import NotModelled

TARGET: Final = "AwsNeuronCustomNativeKernel"
"""The name of the custom call."""
_KERNEL_VERSION: Final = 1
_PREFIX: Final = f"trnsim:{uuid4().hex}/"
"""The prefix of names of this process's kernels, before their numbers."""
_call_numbers: Final[dict[KernelCall, int]] = {}
_calls: Final[list[KernelCall]] = []


def config_of(call: KernelCall, inputs: Sequence[str], output_count: int) -> str:
    """The `backend_config` of a call whose operands have these names; it is base64 of JSON."""
    number = _call_numbers.setdefault(call, len(_calls))
    if number == len(_calls):
        _calls.append(call)
    title, cores = call.kernel.title, call.kernel.cores
    config = {
        "kernel_version": _KERNEL_VERSION,
        "klir_binary": {
            "binary": f"{_PREFIX}{number}",
            "input_names": list(inputs),
            "output_names": [f"output.{index}" for index in range(output_count)],
        },
        "func_name": title,
        "grid": [cores] if cores > 1 else [],
        "has_collectives": False,
    }
    return base64.b64encode(json.dumps(config).encode()).decode()


def call_of(config: str) -> KernelCall:
    """The call that a `backend_config` names.

    Raises:
        NotModelled: another process made it, or AWS's own software.
    """
    try:
        fields: dict[str, Any] = json.loads(base64.b64decode(config, validate=True))
        title, binary = str(fields["func_name"]), str(fields["klir_binary"]["binary"])
    except (ValueError, KeyError, TypeError):
        title, binary = "", ""
    number = binary.removeprefix(_PREFIX)
    if binary != number and number.isdecimal() and int(number) < len(_calls):
        return _calls[int(number)]
    raise NotModelled(
        f"stablehlo.custom_call of {TARGET}: the program names the NKI kernel "
        f"{title or '(no name)'} of another process, and does not hold it",
        fix="compile and run it in the process that defines the kernel, as trnsim run FILE does",
        source="nki/guides/framework_custom_op.rst",
    )
