"""`torch_xla.utils.utils`, which programs call `xu`: small helpers without a device.

Source: torch_xla 2.9.0, utils/utils.py.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, Self

from trnsim.xla.absent_names import absence_getter

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


class SampleGenerator:
    """An iterable that gives the same batch `sample_count` times: a loader of synthetic data."""

    def __init__(self, data: Any, sample_count: int) -> None:
        self._data = data
        self._sample_count = sample_count
        self._count = 0

    def __iter__(self) -> Iterator[Any]:
        return SampleGenerator(self._data, self._sample_count)

    def __len__(self) -> int:
        return self._sample_count

    def __next__(self) -> Any:
        if self._count >= self._sample_count:
            raise StopIteration
        self._count += 1
        return self._data


def as_list(t: Any) -> Any:
    """A list or tuple unchanged; any other value as a tuple of one element."""
    return t if isinstance(t, (tuple, list)) else (t,)


def getenv_as(name: str, type: Callable[..., Any], defval: Any = None) -> Any:  # noqa: A002  torch_xla's name
    """A variable of the environment as `type`; `bool` reads a number. `defval` if it is not set."""
    value = os.environ.get(name)
    if value is None:
        return defval
    return bool(int(value)) if type is bool else type(value)


def check_env_flag(name: str, default: str = "") -> bool:
    """True if a variable is one of 1, y, yes, true, on, in any case."""
    return os.environ.get(name, default).upper() in {"ON", "1", "YES", "TRUE", "Y"}


def get_free_tcp_ports(n: int = 1) -> list[int]:
    """Ports of this machine that nothing listens on."""
    with ExitStack() as open_sockets:
        probes = [open_sockets.enter_context(socket.socket()) for _ in range(n)]
        for probe in probes:
            probe.bind(("", 0))
        return [probe.getsockname()[1] for probe in probes]


def list_copy_append(ilist: list[Any], item: Any) -> list[Any]:
    """A copy of a list with an item at its end."""
    return [*ilist, item]


def null_print(*args: Any, **kwargs: Any) -> None:
    """Nothing is printed."""
    del args, kwargs


def eprint(*args: Any, **kwargs: Any) -> None:
    """Print to the standard error."""
    output = sys.stderr
    print(*args, file=output, **kwargs)


def get_print_fn(debug: bool | None = None) -> Callable[..., None]:
    """`eprint`, or `null_print` unless `debug` or the variable DEBUG says so."""
    is_debugging = check_env_flag("DEBUG") if debug is None else debug
    return eprint if is_debugging else null_print


def timed(fn: Callable[[], Any], msg: str = "", printfn: Callable[..., Any] | None = eprint) -> Any:
    """`fn()`, whose seconds are printed as `msg<seconds>sec`."""
    if printfn is None:
        return fn()
    start_s = time.time()
    result = fn()
    printfn(f"{msg}{time.time() - start_s:.3f}sec")
    return result


class TimedScope:
    """A context whose seconds are printed at its end."""

    def __init__(self, msg: str = "", printfn: Callable[..., Any] | None = eprint) -> None:
        self._message = msg
        self._print = printfn
        self._start_s = 0.0

    def __enter__(self) -> Self:
        self._start_s = time.time()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None and self._print is not None:
            self._print(f"{self._message}{time.time() - self._start_s:.3f}sec")


__getattr__ = absence_getter("torch_xla.utils.utils", __name__)
