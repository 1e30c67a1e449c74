"""The commands as functions: each returns the JSON of a command, computed by a process of its own.

    from trnsim import api
    api.check("softmax.py", on=["trn2"], max_us=60).values["kernels"]

A call has a limit of time and of memory, and reads files of its folder alone. The programs that it
runs have the rights of the caller: a limit holds off mistakes, not attacks.
"""

from trnsim.api.answers import (
    check,
    explain,
    plan_collective,
    plan_infer,
    plan_serve,
    plan_train,
    profile,
    profile_diff,
    run,
    tune,
)
from trnsim.api.bounds import Answer, Bounds

__all__ = [
    "Answer",
    "Bounds",
    "check",
    "explain",
    "plan_collective",
    "plan_infer",
    "plan_serve",
    "plan_train",
    "profile",
    "profile_diff",
    "run",
    "tune",
]
