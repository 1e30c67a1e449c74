"""`torch.export` programs on the chip: time by operator, memory, and what has no lowering.

An exported program has its weights among its inputs, so their bytes are in the memory plan. Nothing
is computed: the graph alone says what the chip would do.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from zipfile import is_zipfile

import torch

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.files import require, write
from trnsim.lower import (
    Cost,
    MemoryPlan,
    costs,
    memory_plan,
)
from trnsim.profile.words import bytes_words, time_words
from trnsim.text import aligned
from trnsim.torch import pytorch
from trnsim.torch.api.cores import device_core
from trnsim.torch.compile.fx_import import Imported, import_graph, is_lowered
from trnsim.torch.faults import OutOfDeviceMemory

_ROWS: Final = 16
_UNKNOWN_CLASS: Final = re.compile(r"(?P<module>[\w.]+)\.\w+(?= in pytree is not registered)")
_UNKNOWN_OPERATOR: Final = re.compile(r"(?<=failed to resolve )torch\.ops\.[\w.]+")
_EXPORT: Final = "write one: torch.export.save(torch.export.export(model, args), 'model.pt2')"


@dataclass(frozen=True)
class CompiledProgram:
    """An exported program on one chip.

    Attributes:
        title: the file's name.
        target: the chip.
        imported: the program as a graph.
        plan: what lies in HBM when.
        kernels: what each kernel takes, in order.
    """

    title: str
    target: str
    imported: Imported
    plan: MemoryPlan
    kernels: tuple[Cost, ...]

    @property
    def device_time_s(self) -> float:
        """All kernels one after the other; a compiled graph is launched once."""
        return sum(kernel.device_time_s for kernel in self.kernels)

    def text(self) -> str:
        """What the command prints."""
        launch_s = self.kernels[0].launch_s if self.kernels else 0.0
        flop = sum(kernel.flop for kernel in self.kernels)
        operators, time_s = len(self.imported.operators), self.device_time_s
        peak, given = self.plan.peak_bytes, self.plan.input_bytes
        lines = [
            f"{self.title} on {self.target}: {operators} operators, {flop / 1e9:.3g} GFLOP",
            f"  time    {time_words(time_s)} of the device, {time_words(launch_s)} to launch",
            f"  memory  {bytes_words(peak)} at most, {bytes_words(given)} of it inputs and weights",
            f"  arena   {self.plan.arena_words()}",
            "",
            self._by_kernel(),
            "",
            "HBM at the peak",
            self.plan.table(),
        ]
        if self.imported.missing:
            lines += ["", "no lowering, so no time: the total is short by what these take"]
            lines += [f"  {why}" for why in self.imported.missing]
        return "\n".join(lines)

    def _by_kernel(self) -> str:
        number: Counter[str] = Counter(kernel.name for kernel in self.kernels)
        taken_s: defaultdict[str, float] = defaultdict(float)
        for kernel in self.kernels:
            taken_s[kernel.name] += kernel.device_time_s
        longest = sorted(taken_s.items(), key=lambda row: -row[1])
        total = self.device_time_s or 1.0
        rows = [
            [name, str(number[name]), time_words(time_s), f"{100 * time_s / total:.1f}"]
            for name, time_s in longest[:_ROWS]
        ]
        return aligned(["operations of a kernel", "kernels", "time", "%"], rows)

    def write(self, folder: Path) -> list[Path]:
        """Write `compile-<chip>.txt`, `.json` and a trace; their paths."""
        contents = {
            f"compile-{self.target}.txt": self.text() + "\n",
            f"compile-{self.target}.json": json.dumps(self._as_dict(), indent=1),
            f"compile-{self.target}.trace.json": json.dumps({"traceEvents": self._trace()}),
        }
        return [write(folder / name, made, parents=True) for name, made in contents.items()]

    def _as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "target": self.target,
            "device_time_s": self.device_time_s,
            "peak_hbm_bytes": self.plan.peak_bytes,
            "input_bytes": self.plan.input_bytes,
            "arena": self._arena(),
            "missing": list(self.imported.missing),
            "kernels": [
                {"name": kernel.name, "device_time_s": kernel.device_time_s, "flop": kernel.flop}
                for kernel in self.kernels
            ],
        }

    def _arena(self) -> dict[str, Any]:
        found = self.plan.arena
        tensors = zip(self.plan.inside, found.offsets_bytes, strict=True)
        return {
            "bytes": found.nbytes,
            "at_least_bytes": found.least_bytes,
            "tensors": [
                {"type": str(one.type), "first": one.first, "last": one.last, "offset_bytes": place}
                for one, place in tensors
            ],
        }

    def _trace(self) -> list[dict[str, Any]]:
        """Kernels in a row and the planned HBM as a counter, in Chrome's format."""
        found: list[dict[str, Any]] = []
        now_us = 0.0
        for kernel, in_use in zip(self.kernels, self.plan.in_use_bytes, strict=True):
            took_us = kernel.device_time_s * 1e6
            place = {"pid": 0, "tid": "kernels", "ts": now_us}
            found += [
                {"name": kernel.name, "ph": "X", "dur": took_us, **place},
                {"name": "HBM", "ph": "C", "args": {"bytes": in_use}, **place},
            ]
            now_us += took_us
        return found


def compile_program(path: Path, target: str) -> CompiledProgram:
    """The exported program in a file, lowered for a chip.

    Raises:
        BadInput: for a file that is no exported program.
        OutOfDeviceMemory: for a program that a NeuronCore has no room for.
    """
    imported = import_graph(_loaded(path).graph_module)
    plan = memory_plan(imported.graph, imported.names)
    device = device_core(arch.target(target))
    if plan.peak_bytes > device.hbm_bytes:
        raise OutOfDeviceMemory(
            f"{path.name} needs {bytes_words(plan.peak_bytes)} of HBM at its peak; a NeuronCore of "
            f"{target} has {bytes_words(device.hbm_bytes)}\n{plan.table()}",
            fix="shard the model, or export it for a smaller batch",
            source=device.source,
        )
    return CompiledProgram(path.name, target, imported, plan, costs(imported.graph, target))


def _loaded(path: Path) -> torch.export.ExportedProgram:
    require(path, fix=_EXPORT)
    if not is_zipfile(path):
        raise BadInput(f"{path} is no exported program", fix=_EXPORT)
    with warnings.catch_warnings():
        # PyTorch's own export copies a class that it has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = _read(path, frozenset())
        lowered: torch.export.ExportedProgram = program.run_decompositions(
            pytorch.decompositions(is_lowered)
        )
        return lowered


def _read(path: Path, imported: frozenset[str]) -> torch.export.ExportedProgram:
    """The program in a file; modules that define the classes of its results are imported first.

    PyTorch names such a class in its log alone, and only if it was not imported yet.
    """
    log, said = logging.getLogger("torch.export"), _Said()
    log.addFilter(said)
    try:
        with path.open("rb") as stream:  # by a path PyTorch loads names in .pt2 alone
            return torch.export.load(stream)
    except (RuntimeError, ValueError, KeyError) as error:
        told = "\n".join([str(error), *said.errors])
        unknown, operator = _UNKNOWN_CLASS.search(told), _UNKNOWN_OPERATOR.search(told)
        if operator is not None:
            raise BadInput(
                f"{path} calls {operator[0]}, which nothing here registers",
                fix="name the module that does: trnsim compile --import MODULE ...",
            ) from error
        if unknown is None or unknown["module"] in imported:
            reason = str(error).splitlines()[0]
            raise BadInput(f"{path} is no exported program: {reason}", fix=_EXPORT) from error
        module = unknown["module"]
    finally:
        log.removeFilter(said)
    try:
        import_module(module)
    except ImportError as error:
        raise BadInput(
            f"{path} returns an object of {unknown[0]}, and {error}",
            fix=f"install {module.partition('.')[0]} as it was where the program was made",
        ) from error
    return _read(path, imported | {module})


class _Said(logging.Filter):
    """Keeps the errors that a log is given, and prints nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Never."""
        self.errors.append(str(record.exc_info[1] if record.exc_info else record.getMessage()))
        return False
