"""trnsim: a Trainium you can pip install.

    import trnsim
    result = trnsim.run(kernel, a, b, target="trn2")
    result.outputs, result.total_time_s, result.summary

    replay = trnsim.record(kernel, a, b, target="trn2")     # the kernel's Python once,
    result = replay(a, b)                                   # its instructions as often as you like

`import trnsim` loads neither torch nor jax.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trnsim.run import Run, run

if TYPE_CHECKING:
    from trnsim.nki.replay import Replay, record

__version__ = "0.1.0"
__all__ = ["Replay", "Run", "__version__", "record", "run"]


def __getattr__(name: str) -> Any:
    """What needs the kernel language, which `import trnsim` alone does not load."""
    if name in ("Replay", "record"):
        return getattr(import_module("trnsim.nki.replay"), name)
    raise AttributeError(f"module 'trnsim' has no attribute {name!r}")
