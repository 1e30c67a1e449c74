"""trnsim: a Trainium you can pip install.

    import trnsim
    result = trnsim.run(kernel, a, b, target="trn2")
    result.outputs, result.total_time_s, result.summary

    replay = trnsim.record(kernel, a, b, target="trn2")     # the kernel's Python once,
    result = replay(a, b)                                   # its instructions as often as you like

`import trnsim` alone loads no subpackage, and so neither numpy nor torch nor jax: they come with
the first of these names that a program uses (PEP 562).
"""

from trnsim.observers import run_observer_factories
from trnsim.user_traceback import install as show_users_frames
from trnsim.version import VERSION

TYPE_CHECKING = False  # typing itself is not needed, and checkers know the name
if TYPE_CHECKING:
    from trnsim.nki.replay import Replay, record
    from trnsim.runner import run
    from trnsim.runs import Run

__version__ = VERSION
__all__ = ["Replay", "Run", "__version__", "record", "run"]

_MODULES = {
    "Replay": "trnsim.nki.replay",
    "Run": "trnsim.runs",
    "record": "trnsim.nki.replay",
    "run": "trnsim.runner",
}


def _state_observer() -> object:
    """The observer that publishes this process's runs to neuron-monitor and its like.

    It is made at the user's first run.
    """
    from trnsim.device.watch import RUNS  # noqa: PLC0415  a program without a run needs no device

    return RUNS


run_observer_factories.append(_state_observer)
show_users_frames()


if not TYPE_CHECKING:  # for a checker, what is not listed above does not exist

    def __getattr__(name: str) -> object:
        """A name of `__all__`, from its subpackage, which is imported now."""
        if name not in _MODULES:
            raise AttributeError(f"module 'trnsim' has no attribute {name!r}")
        module = __import__(_MODULES[name], fromlist=[name])  # `import_module` is slow Python code
        if name == "run":  # its reader is about to run a kernel of their own
            module.OBSERVERS.expect()
        return getattr(module, name)


def __dir__() -> list[str]:
    """The names of the package, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
