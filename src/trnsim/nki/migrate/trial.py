"""Trials: the old file under its version and the new one under its target, on the same inputs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trnsim.arch.environment import chosen_target
from trnsim.behaviours import Behaviour, Version
from trnsim.behaviours.chosen import pinned
from trnsim.dtypes import Array
from trnsim.errors import EmulatorError
from trnsim.nki.across import differing_rows, equal_outputs, watched_version
from trnsim.nki.kernel import jit
from trnsim.nki.migrate.file import Function
from trnsim.nki.migrate.inputs import Shape, inputs_of
from trnsim.nki.migrate.report import KernelVersion, Report
from trnsim.runner import run
from trnsim.runs import Launchable

EQUAL: Final = "equal values"
OTHER: Final = "other values"
REFUSED: Final = "refused"
NOT_RUN: Final = "not run"


@dataclass(frozen=True)
class Trial:
    """The outcome of running a kernel from the old file and from the new one.

    Attributes:
        kernel: the name of the kernel.
        end: the outcome, one of `EQUAL`, `OTHER`, `REFUSED` and `NOT_RUN`.
        says: the details in words, such as an error; "" if there are none.
        inputs: its arrays by parameter, as "128x512:float32".
        causes: the rows of the table of behaviours that explain other values.
    """

    kernel: str
    end: str
    says: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    causes: Sequence[Behaviour] = ()


def trials_of(
    report: Report,
    text: str,
    shapes: Mapping[str, Shape],
    arrays: Sequence[Array] = (),
    kernel: str | None = None,
    seed: int = 0,
) -> list[Trial]:
    """The trials of a file's kernels, except kernels defined inside a function.

    Args:
        report: the report of the file.
        text: the new file, for the report's target version.
        shapes: shapes of parameters by their name; other parameters have the shapes of their
            annotations.
        arrays: arrays of the first parameters.
        kernel: the name of the only kernel to try, perhaps a function without @nki.jit; None for
            all kernels.
        seed: seed of the random inputs.
    """
    trials: list[Trial] = []
    for version, function in _functions(report, kernel):
        if report.file.function_of(function) is not None and kernel is None:
            continue
        if report.file.function_of(function) is not None:
            says = "it is made in a function; run the program: trnsim run --nki all"
            trials.append(Trial(function.name, NOT_RUN, says))
            continue
        inputs, unknown_names = inputs_of(report.file, function, shapes, arrays, seed)
        if unknown_names:
            says = "say " + " ".join(f"--shape {name}=128x512:float32" for name in unknown_names)
            trials.append(Trial(function.name, NOT_RUN, says))
        else:
            with redirect_stdout(sys.stderr), warnings.catch_warnings(action="ignore"):
                trials.append(_trial(report, text, function.name, inputs, version.version))
    return trials


def _functions(report: Report, kernel: str | None) -> list[tuple[KernelVersion, Function]]:
    """The kernels of a file with their versions, or the function called `kernel`."""
    pairs = list(zip(report.kernels, report.file.kernels, strict=False))
    if kernel is None:
        return pairs
    matches = [(version, function) for version, function in pairs if function.name == kernel]
    functions = [candidate for candidate in report.file.functions if candidate.name == kernel]
    return matches or [(report.kernels[0], candidate) for candidate in functions[:1]]


def _trial(
    report: Report, text: str, kernel: str, inputs: Mapping[str, Array], origin: Version
) -> Trial:
    """The trial of one kernel: the old file under `origin`, and `text` under the target version."""
    input_texts = {name: f"{'x'.join(map(str, a.shape))}:{a.dtype}" for name, a in inputs.items()}

    def run_old_file() -> Sequence[Any]:
        return _outputs(report.file.text, report.path, kernel, inputs)

    try:
        with pinned(origin, "trnsim migrate"):
            expected = run_old_file()
    except Exception as error:  # noqa: BLE001  the program's own, which is reported
        return Trial(kernel, NOT_RUN, f"under {origin}: {_error_line(error)}", input_texts)
    current = watched_version(report.target)
    try:
        with pinned(current, "trnsim migrate"):
            outputs = _outputs(text, report.path, kernel, inputs)
    except Exception as error:  # noqa: BLE001  likewise
        return Trial(kernel, REFUSED, f"under {report.target}: {_error_line(error)}", input_texts)
    if equal_outputs(outputs, expected):
        return Trial(kernel, EQUAL, "", input_texts)
    rows = differing_rows(current, origin)

    def is_explained(*inverted: Behaviour) -> bool:
        """True if the new file gives the old values with these rows as in the old version."""
        try:
            with pinned(watched_version(report.target, *inverted), "trnsim migrate"):
                return equal_outputs(_outputs(text, report.path, kernel, inputs), expected)
        except Exception:  # noqa: BLE001  a row as before may not fit the new file
            return False

    causes = [row for row in rows if is_explained(row)] or (rows if is_explained(*rows) else [])
    says = ", ".join(row.name for row in causes) or "no row of the table explains them"
    return Trial(kernel, OTHER, says, input_texts, causes)


def _outputs(text: str, path: str, kernel: str, inputs: Mapping[str, Array]) -> Sequence[Any]:
    """Results of a kernel in a file's text."""
    with _module(text, path) as module:
        launchable = getattr(module, kernel)
        if not isinstance(launchable, Launchable):
            launchable = jit(launchable)  # as its callers do
        arguments = {name: array.copy() for name, array in inputs.items()}
        result = run(launchable, target=chosen_target()[0], kernel_kwargs=arguments)
        outputs = result.outputs
        return outputs if isinstance(outputs, tuple | list) else [outputs]


@contextmanager
def _module(text: str, path: str) -> Generator[ModuleType]:
    """Context with the module of a text, imported as if the text were the file at `path`."""
    folder, package = Path(path).resolve().parent, list[str]()
    while (folder / "__init__.py").exists():
        package.insert(0, folder.name)
        folder = folder.parent
    name = ".".join([*package, Path(path).stem])
    module = ModuleType(name)
    module.__file__ = path
    module.__package__ = ".".join(package)
    sys.path.insert(0, str(folder))
    previous_module = sys.modules.get(name)
    try:
        if package:
            import_module(module.__package__)  # which may import the file itself
        previous_module = sys.modules.get(name)
        sys.modules[name] = module
        exec(compile(text, path, "exec", dont_inherit=True), vars(module))  # noqa: S102  the file
        yield module
    finally:
        sys.path.remove(str(folder))
        if previous_module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = previous_module


def _error_line(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, EmulatorError):
        return error.reason
    return f"{type(error).__name__}: {error}".splitlines()[0]
