"""The NKI kernels of a traced program: stored in it, and called as operators when it is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from trnsim.device.device_core import target
from trnsim.torch.dispatch.launches import NAMESPACE, kernel_call, operator_of
from trnsim.torch.dispatch.nki_calls import call_of_kernel, meta_results
from trnsim.torch.traces.encoding import MalformedProgram, checked_index
from trnsim.torch.traces.kernels.issuer import SavedKernel
from trnsim.torch.traces.kernels.recorder import record_kernel
from trnsim.torch.traces.kernels.stored_kernel import StoredKernel
from trnsim.torch.traces.stored import StoredCall, StoredProgram

_KERNEL_BY_NUMBER: Final = re.compile(rf"{NAMESPACE}\.(?P<number>\d{{1,9}})")
"""A call of a kernel of the program by its number."""
_KERNEL_BY_NAME: Final = re.compile(rf"{NAMESPACE}\.(?P<name>[A-Za-z_]\w*)\.default")
"""A call of a kernel of this process."""
_saved_kernels: Final[dict[bytes, SavedKernel]] = {}


def with_kernels(program: StoredProgram) -> StoredProgram:
    """A program that has the kernels of this process which it calls.

    Raises:
        NotModelled: for a kernel that cannot be stored; names its line.
    """
    kernels, calls = list(program.kernels), list[StoredCall]()
    numbers: dict[str, tuple[int, list[int]]] = {}
    for call in program.calls:
        match = _KERNEL_BY_NAME.fullmatch(call.operator)
        call_of_process = kernel_call(f"{NAMESPACE}::{match['name']}") if match else None
        if call_of_process is None:
            calls.append(call)
            continue
        if call.operator not in numbers:
            kernel, order = record_kernel(call_of_process, target().name)
            numbers[call.operator] = len(kernels), order
            kernels.append(kernel)
        number, order = numbers[call.operator]
        args = [call.args[place] for place in order]
        calls.append(replace(call, operator=f"{NAMESPACE}.{number}", args=args))
    return replace(program, calls=calls, kernels=kernels)


def kernel_operator(program: StoredProgram, call: StoredCall, args: Sequence[Any]) -> Any:
    """The operator of a call of one of the program's kernels; None for another call.

    Raises:
        MalformedProgram: for a call that its kernel does not take, or with other results.
        EmulatorError: where the chip refuses an instruction of the kernel.
    """
    match = _KERNEL_BY_NUMBER.fullmatch(call.operator)
    if match is None:
        return None
    number = checked_index(int(match["number"]), len(program.kernels), f"{NAMESPACE}, a kernel")
    values = [arg.meta.get("val") if isinstance(arg, fx.Node) else None for arg in args]
    stored = program.kernels[number]
    if call.kwargs or not all(isinstance(value, Tensor) for value in values):
        raise MalformedProgram(f"a call of the kernel {stored.title} with other than tensors")
    launched_call, _ = call_of_kernel(saved_kernel(stored), tuple(values), {})
    results = tree_leaves(meta_results(launched_call.outline(target().name)))
    declared_results = (
        call.result if isinstance(call.result, list) else [call.result][: len(results)]
    )
    if len(declared_results) != len(results) or not all(
        form is not None and form.matches(result)
        for form, result in zip(declared_results, results, strict=True)
    ):
        raise MalformedProgram(
            f"a call of the kernel {stored.title} with other results than it has"
        )
    return operator_of(launched_call)


def saved_kernel(stored: StoredKernel) -> SavedKernel:
    """The kernel of a stored form; equal forms share a kernel, its operators and its records."""
    key = sha256(json.dumps(stored.to_json()).encode()).digest()
    return _saved_kernels.setdefault(key, SavedKernel(stored))
