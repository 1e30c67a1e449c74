"""The process of a call: `python -m trnsim.api.child BYTES WORDS...` runs a command in bounds."""

from __future__ import annotations

import runpy
import sys

__all__: list[str] = []


def limit_memory(limit_bytes: int) -> None:
    """Limit the bytes of data of this process, and of each process that it starts, on Linux.

    Linux counts private writable mappings as data, but not address space that libraries reserve.
    Source: Linux, setrlimit(2), RLIMIT_DATA.
    """
    if sys.platform != "linux":
        return
    import resource  # noqa: PLC0415  no other system needs it

    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    most_bytes = sys.maxsize if hard_limit == resource.RLIM_INFINITY else hard_limit
    limit = min(limit_bytes, most_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    limit_memory(int(sys.argv[1]))
    sys.argv[:2] = ["trnsim"]
    runpy.run_module("trnsim", run_name="__main__", alter_sys=True)
