"""`torch_xla.utils.serialization`, which programs call `xser`: a file for each tensor.

A saved value is `path`, with a TensorReference in the place of each tensor of the device, and
`path.tensors/tensor_N.pt` with tensor N on the host.

Source: torch_xla 2.9.0, utils/serialization.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final

import torch

from trnsim.device.program_line import program_line
from trnsim.torch.device_name import is_neuron
from trnsim.user_traceback import explain
from trnsim.xla import ranks
from trnsim.xla.arenas import ToXlaTensorArena
from trnsim.xla.cuts.cutting import cuts

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


class TensorReference:
    """The place of a tensor in a saved value.

    Attributes:
        tid: number of the tensor's file.
    """

    # Files of torch_xla have this name of the class, and files of ours have it for torch_xla.
    __module__ = "torch_xla.utils.serialization"

    def __init__(self, tid: int) -> None:
        self.tid = tid


def _folder(path: str) -> Path:
    return Path(f"{path}.tensors")


def _file(path: str, number: int) -> Path:
    return _folder(path) / f"tensor_{number}.pt"


def _get_tensors_folder(path: str) -> str:  # pyright: ignore[reportUnusedFunction]  NxD calls it
    """The folder of the tensors of a saved value."""
    return str(_folder(path))


def _get_tensor_file(path: str, tid: int) -> str:  # pyright: ignore[reportUnusedFunction]  likewise
    """The file of a tensor in such a folder."""
    return str(Path(path) / f"tensor_{tid}.pt")


def save(data: Any, path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """Write `data`, its tensors of the device in a file each, in the ranks of `xm.save`.

    All ranks compute the tensors, by one program.
    """
    is_writing = not master_only or not (
        ranks.ordinal() if global_master else ranks.local_ordinal()
    )
    name = str(path)
    if is_writing:
        shutil.rmtree(_folder(name), ignore_errors=True)
        _folder(name).mkdir()

    def write(tensors: list[torch.Tensor]) -> list[TensorReference]:
        cuts.sync(tensors, "_xla_sync_multi")
        for number, tensor in enumerate(tensors if is_writing else ()):
            torch.save(tensor.detach().cpu(), _file(name, number))
        return [TensorReference(number) for number in range(len(tensors))]

    references = ToXlaTensorArena(
        write, lambda value: isinstance(value, torch.Tensor) and is_neuron(value.device)
    ).transform(data)
    if is_writing:
        torch.save(references, name)


def load(path: Any) -> Any:
    """The value that `save` wrote, on the host. It is unpickled: read only files that you trust."""
    name = str(path)
    arena = ToXlaTensorArena(
        lambda references: [torch.load(_file(name, part.tid)) for part in references],
        lambda value: isinstance(value, TensorReference),
    )
    try:
        return arena.transform(torch.load(name, weights_only=False))
    except (OSError, UnpicklingError, RuntimeError, EOFError) as error:
        note = f"  xser.load({name!r}) reads what xser.save wrote: that file, and {_folder(name)}"
        explain(error, f"{note}\n  fix: copy both, or save it again\n  at {program_line()}")
        raise
