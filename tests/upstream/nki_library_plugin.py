"""What nki-library's own harness lacks to run in simulation mode, supplied from outside.

The public repository (tag 2.29) imports two modules that it does not hold, and reads an attribute
that simulation mode never sets. A pytest plugin puts them there; nothing of the suite is edited.
"""

import enum
import sys
import types

import nki  # noqa: F401  it must be importable before the harness aliases it


class _Answer:
    """Anything that is asked of a module that is not public."""

    def __getattr__(self, name):
        return None


def _module(name, **contents):
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


class LockStatus(enum.Enum):
    """Of locks on remote accelerators, which simulation never takes."""

    SUCCESS = 0
    FAILURE = 1


_module("test.utils.scripts")
_module(
    "test.utils.scripts.remote_lock_scripts",
    LockStatus=LockStatus,
    LockResult=type("LockResult", (), {}),
)
_module("test.utils.perf_analysis_private", analyze_trace=lambda *_, **__: _Answer())


def pytest_collection_finish(session):
    """Simulation mode never compiles, so nothing was compiled."""
    del session
    from test.utils.test_orchestrator import Orchestrator  # noqa: PLC0415

    Orchestrator._compiled_kernel = None
