"""The process of a call: `python -m trnsim.api.child BYTES WORDS...` runs a command in bounds."""

from __future__ import annotations

import runpy
import sys

__all__: list[str] = []


def limit_memory(limit_bytes: int) -> None:
    """Limit the data of this process and of those that it starts, where the system can.

    The limit is of data, which Linux counts for private writable mappings too: address space alone
    is no use of memory, and libraries reserve much of it. Source: Linux, setrlimit(2), RLIMIT_DATA.
    """
    if sys.platform != "linux":
        return
    import resource  # noqa: PLC0415  no other system needs it

    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit_bytes if hard_limit == resource.RLIM_INFINITY else min(limit_bytes, hard_limit)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    limit_memory(int(sys.argv[1]))
    sys.argv[:2] = ["trnsim"]
    runpy.run_module("trnsim", run_name="__main__", alter_sys=True)
