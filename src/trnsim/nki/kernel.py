"""`@nki.jit`: kernels and their launch.

A kernel called from Python runs on the emulated core and returns the kind of array of its
arguments. Called from another kernel it is a plain function.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import count
from operator import is_not
from types import FunctionType
from typing import Any, ClassVar, Final, TypeAlias
from weakref import WeakValueDictionary

from trnsim.arch import configured_cores
from trnsim.arch.environment import (
    TARGET_VARIABLE,
    asks_for_simulator,
    check_logical_cores,
    default_target,
    is_precise,
)
from trnsim.behaviours.chosen import VersionChoice, choice_of
from trnsim.behaviours.compiler import DEGREE_OF_VARIABLE
from trnsim.behaviours.language import PLATFORM_TARGET
from trnsim.behaviours.simulator import CASTS_SATURATE, PRECISE
from trnsim.errors import (
    BadInput,
    NotModelled,
    SourceLine,
    is_handled_by_program,
    user_line,
    watched_errors,
)
from trnsim.isa.language.fields import is_whole
from trnsim.nki.arguments import documented_in
from trnsim.nki.boundary import Boundary, refuse_argument_read_as_tensor
from trnsim.nki.builtin_buffers import builtin_buffers
from trnsim.nki.collectives.prepared import check_triggered
from trnsim.nki.configs import (
    CompileConfig,
    SpecializationConfig,
    check_nested,
    configs_of,
    launch_context,
)
from trnsim.nki.dialect import inferred_version, marked_version, require
from trnsim.nki.mixing import note_kernel, refuse_nested
from trnsim.nki.notices import as_simulator, refuse_lists_of_defaults, warn_of_races
from trnsim.nki.notices import is_simulator as runs_on_simulator
from trnsim.nki.precision import truncation_context, widening_context
from trnsim.nki.restrictions import check_language
from trnsim.nki.schedule import Schedule, refuse_kind, schedule_of
from trnsim.program import Records, Team, current_core, has_current_core
from trnsim.runner import run_of_call
from trnsim.runs import OBSERVERS, Launchable, Run

__all__ = ["TARGET_VARIABLE", "Kernel", "default_target", "emulate", "jit"]

_LOGICAL_CORES = (1, 2)

Launcher: TypeAlias = "Callable[[Kernel, Any, Any], Any]"
"""A function that runs a kernel on a device's tensors; NotImplemented for other arguments."""


class Kernel:
    """A function that issues NeuronCore instructions (a `trnsim.runs.Launchable`).

    Attributes:
        cores: number of NeuronCores that run the kernel together.
        has_grid: whether the program gave this number as a launch grid, `kernel[2]`.
        options: the options of `@nki.jit`.
        schedule: the edges of `with_schedule`; None without a schedule.
        number: a unique number, by which a traced graph names the kernel.
        records: cache of the programs of its calls, which equal later calls reuse.
    """

    by_number: ClassVar[WeakValueDictionary[int, Kernel]] = WeakValueDictionary()
    """Every kernel by its number."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        cores: int = 1,
        schedule: Schedule | None = None,
    ) -> None:
        self.cores = cores
        self.has_grid = False
        self.options = dict(options)
        self.schedule = schedule
        self.number = next(_numbers)
        self._configs = configs_of(self.options)
        self._function = function
        self._grids: dict[int, Kernel] = {}
        self._code_and_defaults: tuple[object, ...] | None = None
        self._parameter_names: tuple[str, ...] | None = None
        self._cached_signature = inspect.Signature()
        self.records = Records()
        functools.update_wrapper(self, function)
        Kernel.by_number[self.number] = self

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies: everything but the records of calls."""
        return {name: value for name, value in vars(self).items() if name != "records"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.records = Records()

    @property
    def title(self) -> str:
        """The function's name."""
        function = self._function
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__name__", type(function).__name__)

    @property
    def line(self) -> SourceLine | None:
        """The line of the function's definition."""
        return _line_of(self._function)

    @property
    def may_spill(self) -> bool:
        """False if an exceeded SBUF or PSUM is an error: `CompileConfig(nki_alloc_fallback)`."""
        return self._configs.may_spill

    def version(self) -> VersionChoice:
        """The version of NKI whose rules it follows, and the reason.

        Raises:
            BadInput: for a version that does not exist, or a file whose forms no single version
                has.
        """
        choice = choice_of(lambda: self._marked_version, lambda: self._inferred_version)
        return choice._replace(is_simulated=True) if runs_on_simulator() else choice

    @property
    def function(self) -> Callable[..., Any]:
        """The decorated function."""
        return self._function

    @functools.cached_property
    def _marked_version(self) -> VersionChoice | None:
        return marked_version(self._function)

    @functools.cached_property
    def _inferred_version(self) -> VersionChoice:
        return inferred_version(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside a kernel a plain call; elsewhere a run on the default target, and its outputs.

        The run is as on a chip, unless NKI_SIMULATOR asks for AWS's simulator.
        """
        if _unloaded_launchers and not _needs_no_launcher((args, kwargs)):
            _load_launchers()
        for launcher in launchers:
            result = launcher(self, args, kwargs)
            if result is not NotImplemented:
                return result
        if has_current_core():
            check_nested(self.title, self._configs)
            self._refuse_inner_schedule()
            refuse_nested(self)
            return self._function(*args, **kwargs)
        kernel = self.of_degree()
        check_logical_cores(kernel.title, kernel.cores)
        is_simulator = asks_for_simulator()
        if not is_simulator:
            OBSERVERS.expect()
        target = default_target(str(self.options.get("platform_target") or ""))
        return emulate(kernel, args, kwargs, target=target, is_simulator=is_simulator).outputs

    def of_degree(self) -> Kernel:
        """The kernel on the number of cores that a call uses.

        The number is that of its launch grid, else of NEURON_LOGICAL_NC_CONFIG in versions of NKI
        that read this variable, else one.

        Source: nki.jit.
        """
        _, configured = configured_cores() or ("", "")
        if self.has_grid or configured not in map(str, _LOGICAL_CORES):
            return self
        follows = self.version().version.follows(DEGREE_OF_VARIABLE)
        return self[int(configured)] if follows else self

    def __getitem__(self, grid: Any) -> Kernel:
        """The kernel for a launch grid: `kernel[2]` runs on the two cores of a logical core.

        Raises:
            BadInput: for any other grid.
        """
        degree = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if not is_whole(degree) or isinstance(degree, bool) or degree not in _LOGICAL_CORES:
            raise BadInput(
                f"{self.title}[{grid!r}]; legal: kernel[1] or kernel[2]",
                fix="the launch grid is the number of NeuronCores of a logical core",
                source="nki.jit",
            )
        if degree not in self._grids:
            self._grids[degree] = Kernel(self._function, self.options, int(degree), self.schedule)
            self._grids[degree].has_grid = True
        return self._grids[degree]

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions to `team`; returns its result as the caller's arrays."""
        boundary = Boundary(team.contexts[0], self.line)
        result = self.issue(team, boundary, args, kwargs)
        capture = team.contexts[0].capture
        if capture is not None:
            capture.inputs = boundary.tensors
            capture.result = result
        return boundary.leave(result)

    def issue(
        self, team: Team, boundary: Boundary, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> object:
        """Issue the kernel's instructions to `team`; returns its result as the kernel's tensors."""
        version, line = team.contexts[0].core.nki, self.line
        note_kernel(self, team)
        check_language(self._function, self.options, line, version)
        call = self.bind(args, kwargs)
        refuse_lists_of_defaults(call.signature, call.arguments, version, line)
        for name, value in call.arguments.items():
            call.arguments[name] = boundary.enter(name, value)
        if self._parameter_names is None:
            function = functools.partial(self._function, *call.args, **call.kwargs)
        else:
            function = functools.partial(self._function, **call.arguments)
        inputs = [tensor.storage for tensor in boundary.tensors]
        absent_names: list[set[str]] = []
        try:
            with builtin_buffers(self._function, line, version):
                result, *_ = team.run(lambda: self._call(function, line, absent_names), inputs)
        except AttributeError as error:
            refuse_argument_read_as_tensor(error, self.title, self._function, call.arguments)
            raise
        finally:  # values written before an error reach the caller's arrays too
            boundary.write_back()
        if self.schedule is not None and (missing_names := set.intersection(*absent_names)):
            self.schedule.refuse_absent(team.contexts, missing_names)
        return result

    def with_schedule(self, edges: object, *, kind: object = None) -> Kernel:
        """This kernel with an order of issue between its named instructions.

        Args:
            edges: pairs (consumer, producer) of names, the `name=` of calls of `nki.isa` and
                `nki.collectives`; the producer may be a list of names.
            kind: not emulated: how NKI 0.7 takes a kind of dependency is not public.

        Raises:
            IllegalInstruction: for anything but pairs of names, and for a cycle. A run raises it
                for names that no instruction has, or several have.
            NotModelled: for a kind, and for a second schedule.

        Source: how-to-scheduling-apis.rst.
        """
        version = self.version().version
        if kind is not None:
            refuse_kind(f"{self.title}.with_schedule(kind={kind!r})", version)
        if self.schedule is not None:
            raise NotModelled(
                f"{self.title} has a schedule already: whether AWS's compiler replaces or extends "
                "it is not public",
                fix="pass all edges in one list",
                source="how-to-scheduling-apis.rst",
            )
        schedule = schedule_of(edges, user_line(), version)
        kernel = Kernel(self._function, self.options, self.cores, schedule)
        kernel.has_grid = self.has_grid
        return kernel

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments of a call, bound to the function's parameters.

        Raises:
            BadInput: if they do not fit the signature.
        """
        signature = self._signature()
        if (
            self._parameter_names is not None
            and len(args) == len(self._parameter_names)
            and not kwargs
        ):
            return inspect.BoundArguments(
                signature, dict(zip(self._parameter_names, args, strict=True))
            )
        try:
            return signature.bind(*args, **kwargs)
        except TypeError as error:
            fix = "pass one argument for each parameter of the kernel"
            if next(iter(signature.parameters), "") == "self":
                fix = f"leave the method undecorated, and call nki.jit(object.{self.title})(...)"
            raise BadInput(
                f"{self.title}{signature} was called with {len(args)} positional and "
                f"{sorted(kwargs) or 'no'} keyword arguments: {error}",
                fix=fix,
                source="nki.jit",
            ) from error

    def _signature(self) -> inspect.Signature:
        """The function's signature, cached while a plain function's code and defaults stay.

        `_parameter_names` are then its parameters, if each can be passed by name and by place.
        """
        function = self._function
        if type(function) is not FunctionType or vars(function) or function.__kwdefaults__:
            self._parameter_names = None
            return inspect.signature(function)
        parts = function.__code__, function.__defaults__
        if self._code_and_defaults is None or any(map(is_not, parts, self._code_and_defaults)):
            self._code_and_defaults, self._cached_signature = parts, inspect.signature(function)
            parameters = self._cached_signature.parameters
            is_usual = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
            self._parameter_names = tuple(parameters) if is_usual else None
        return self._cached_signature

    def _call(
        self, function: Callable[[], Any], line: SourceLine | None, absent_names: list[set[str]]
    ) -> Any:
        """The result of the kernel's function on one of the cores.

        Args:
            function: the kernel's function, bound to its arguments.
            line: the line of its definition.
            absent_names: receives the names of the schedule that no instruction of this core has.
        """
        core = current_core()
        first_instruction = core.issued()
        with launch_context(self.title, self._configs, line), watched_errors() as errors:
            result = function()
            check_triggered()
        for error in filter(is_handled_by_program, errors):
            error.add_note(
                f"{self.title} handled this error and went on, as it could not on a chip"
            )
            raise error
        if self.schedule is not None:
            absent_names.append(self.schedule.apply(core, first_instruction))
        return result

    def _refuse_inner_schedule(self) -> None:
        """Refuse a schedule of a kernel that another kernel calls."""
        if self.schedule is not None:
            raise NotModelled(
                f"{self.title} has a schedule and is called by another kernel: a schedule belongs "
                "to the kernel that is launched, and what AWS's compiler does here is not public",
                fix="name its instructions in the schedule of the kernel that is launched",
                source="how-to-scheduling-apis.rst, Adding dependency edges",
            )


_numbers = count()
launchers: Final[list[Launcher]] = []
"""The launchers of devices, tried in order."""
_unloaded_launchers: Final = {"jax": "trnsim.jax"}
"""Framework -> package with its launcher, for frameworks that load no plugin at import.

A kernel's first call loads the launcher and removes the entry: a traced function may call a kernel
before the framework has initialized any device.
"""


_PACKAGES_WITHOUT_LAUNCHER: Final = frozenset({"builtins", "ml_dtypes", "numpy", "torch", "trnsim"})
"""Packages whose values need no launcher that is still to be loaded."""


def _needs_no_launcher(value: Any) -> bool:
    """True if no argument of a call needs a launcher that is still to be loaded."""
    if isinstance(value, dict):
        return all(map(_needs_no_launcher, value.values()))
    if isinstance(value, tuple | list):
        return all(map(_needs_no_launcher, value))
    return type(value).__module__.partition(".")[0] in _PACKAGES_WITHOUT_LAUNCHER


def _load_launchers() -> None:
    """Add the launchers of frameworks that the program has imported."""
    for framework in _unloaded_launchers.keys() & sys.modules.keys():
        import_module(_unloaded_launchers.pop(framework)).launch_kernels()


def emulate(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    target: str,
    is_simulator: bool,
    numerics: bool = True,
) -> Run:
    """A run of `kernel` on `target` through one of AWS's entry points.

    Races and spills are warnings. With `is_simulator` the run is as on AWS's simulator, which has
    no notion of time: nothing is spilled, and a refusal of the compiler alone is a warning too.
    """
    version = kernel.version().version
    is_wide = not is_precise(is_on_unset=not is_simulator or version.follows(PRECISE))
    is_truncated = is_simulator and not version.follows(CASTS_SATURATE)
    with as_simulator(is_simulator), widening_context(is_wide), truncation_context(is_truncated):
        result = run_of_call(
            kernel,
            args,
            target=target,
            numerics=numerics,
            races="warn",
            capacity="warn" if is_simulator else "spill",
            kernel_kwargs=kwargs,
        )
    warn_of_races(result.races + result.doubtful)
    return result


@documented_in("nki")
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    compile_config: CompileConfig | None = None,
    specialization_config: SpecializationConfig | None = None,
    **kwargs: Any,
) -> Any:
    """`@nki.jit` or `@nki.jit(...)`: a decorator that makes a function a kernel.

    Args:
        fn: the function.
        compile_config: a `nki.compiler.CompileConfig`: options of AWS's compiler.
        specialization_config: a `nki.compiler.SpecializationConfig`.
        **kwargs: options of older versions (mode, debug_kernel, experimental_flags ...), which are
            stored in `Kernel.options` without effect.

    Source: nki.jit.

    Raises:
        IllegalInstruction: for platform_target, if the user has chosen a version that lacks it.
        BadInput: for unknown options.
    """
    if "platform_target" in kwargs:
        require(PLATFORM_TARGET, f"nki.jit(platform_target={kwargs['platform_target']!r})")
    configs = {"compile_config": compile_config, "specialization_config": specialization_config}
    options = kwargs | {key: value for key, value in configs.items() if value is not None}
    configs_of(options)  # a wrong one is refused at the decorator, also in `@nki.jit(...)`
    if fn is None:
        return functools.partial(jit, **options)
    if isinstance(fn, Kernel):
        return fn
    if not callable(fn):
        raise BadInput(
            f"nki.jit of {type(fn).__name__}; legal: a function",
            fix="decorate the kernel's function: @nki.jit",
            source="nki.jit",
        )
    _refuse_generator(fn)
    return Kernel(fn, options)


def _refuse_generator(function: Callable[..., Any]) -> None:
    """Refuse a generator or a coroutine function: calling it runs none of its lines."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        kind, fix = "a generator (it has a yield)", "collect the tensors, and return their tuple"
    elif inspect.iscoroutinefunction(function):
        kind, fix = "a coroutine (async def)", "write it with def"
    else:
        return
    raise BadInput(
        f"the kernel {function.__name__} is {kind}: a call of it runs none of its instructions",
        fix=fix,
        line=_line_of(function),
    )


def _line_of(function: Callable[..., Any]) -> SourceLine | None:
    """The line of a function's definition; None if Python has no source for it."""
    while isinstance(function, functools.partial):
        function = function.func
    if hasattr(function, "__wrapped__"):
        function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    return None if code is None else SourceLine(code.co_filename, code.co_firstlineno)
