"""The per-device program of a program that `jit` shards, as XLA's partitioner writes it.

Annotations place some arrays, and the partitioner decides everything else: the share of every
tensor on each device, the exchanges, the mask beyond the end of an uneven share. The private client
partitions a program to compute its values in `fast`; XLA's dump of that pass is the program that is
timed, and that `exact` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from trnsim.errors import NotModelled
from trnsim.jax import private, wire

_STEP: Final = "spmd-partitioning"
"""XLA's name of the step from a program on whole tensors to that of a device."""

_DUMP_OPTIONS: Final = (
    ("xla_dump_hlo_as_proto", "True"),
    ("xla_dump_hlo_pass_re", _STEP),
    ("xla_backend_optimization_level", "0"),
)
_GROUP_LISTS: Final = "xla_enable_rgv3_materialization", "False"
"""Without it groups are axes of a mesh, whose order of devices StableHLO does not keep."""

Override = tuple[str, str]
"""An option of XLA's compiler, and its value."""


def device_program(compile_with: Callable[[Sequence[Override]], Any]) -> bytes:
    """The program that each device runs, as a module of StableHLO in bytes.

    `compile_with` compiles the whole program with further options.

    Raises:
        NotModelled: XLA does not partition the program, or its dump cannot be read.
    """
    try:
        with TemporaryDirectory(prefix="trnsim-") as folder:
            hlo = _partitioned_hlo(compile_with, folder)
        return private.stablehlo_of(wire.module_in(hlo))
    except Exception as error:  # of several kinds; the program itself runs without this record
        reason = str(error).partition("\n")[0]
        raise NotModelled(
            f"XLA does not say what each device computes of it: {reason}",
            fix="say it yourself: jax.shard_map",
        ) from error


def _partitioned_hlo(compile_with: Callable[[Sequence[Override]], Any], folder: str) -> bytes:
    """XLA's dump of a program after its partitioner."""
    overrides = [("xla_dump_to", folder), *_DUMP_OPTIONS]
    try:
        compile_with([*overrides, _GROUP_LISTS])
    except Exception as error:
        if _GROUP_LISTS[0] not in str(error):
            raise
        compile_with(overrides)  # jaxlib before 0.10, which always writes groups as lists
    dumps = sorted(Path(folder).glob(f"*.after_{_STEP}.*.pb"))
    if not dumps:
        raise NotModelled("it is one device's program")
    return dumps[0].read_bytes()
