"""PyTorch's private names, all in one file: read it first when a new PyTorch is released.

All other files of `trnsim.torch` use public names, or these.
"""
# ruff: noqa: SLF001  this file gathers private names

from __future__ import annotations

import copy
import ctypes
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch._ops import OpOverload
from torch.utils import backend_registration

from trnsim.torch.device_name import DEVICE_TYPE, is_neuron

if TYPE_CHECKING:
    from torch import Tensor

Kernel = Any
"""A callable with the signature of the operator that it implements."""
Library = Any
"""A `torch.library.Library`, whose methods have no types."""

KinetoEvent = Any
"""An event of PyTorch's profiler, whose type stub is incomplete."""

_C: Final[Any] = torch._C  # the stub leaves some names out
_DEVICE_TYPE: Final = _C._autograd.DeviceType.PrivateUse1
_UNCLAIMED_NAME: Final = "privateuseone"

to_dlpack: Final[Callable[[Tensor], object]] = torch._C._to_dlpack
from_dlpack: Final[Callable[[object], Tensor]] = torch._C._from_dlpack

CPU_KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_KEY: Final[Any] = torch._C.DispatchKey  # the stub leaves some keys out
AUTOCAST_KEYS: Final = torch._C.DispatchKeySet(_KEY.AutocastPrivateUse1)
AUTOGRAD_KEYS: Final = (
    torch._C.DispatchKeySet(_KEY.ADInplaceOrView)
    | torch._C.DispatchKeySet(_KEY.AutogradCPU)
    | torch._C.DispatchKeySet(_KEY.AutogradOther)
)
without_dispatch_keys: Final = torch._C._ExcludeDispatchKeyGuard
fallthrough: Final = torch.library.fallthrough_kernel
negative_view: Final = torch._neg_view  # pyright: ignore[reportPrivateImportUsage]


def new_library(namespace: str, kind: str = "IMPL") -> Library:
    """A library in which to register kernels, or operators (FRAGMENT) that end with the library."""
    library_class: Any = torch.library.Library
    return library_class(namespace, kind)


def backend_name() -> str | None:
    """The name of the backend that has claimed PyTorch's single free device type, or None."""
    name: str = torch._C._get_privateuse1_backend_name()
    return None if name == _UNCLAIMED_NAME else name


def claim(device_module: object) -> None:
    """Name the free device type "neuron", and let `torch.neuron` be `device_module`."""
    backend_registration._setup_privateuseone_for_python_backend(
        DEVICE_TYPE, backend_module=device_module, device_guard=_Guard()
    )


class _DeferredErrors(threading.local):
    """Errors of this thread that C++ was propagating when it asked for the device's type.

    Attributes:
        errors: the errors in order.
    """

    def __init__(self) -> None:
        self.errors: list[BaseException] = []


deferred_errors: Final = _DeferredErrors()
_let_errors_out: Final = ctypes.pythonapi.PyErr_Occurred
_let_errors_out.restype = ctypes.c_void_p


_DeviceGuard: Any = _C._acc.DeviceGuard


class _Guard(_DeviceGuard):  # type: ignore[misc]
    """The device guard, by which C++ queries a device written in Python."""

    def type_(self) -> Any:
        """The device's type.

        C++ also calls this while a Python error ends a backward pass. A Python function that
        returns with an error pending ends the process, so the error is deferred, and the caller of
        the pass raises it. ctypes raises a pending error after a call of Python's C API.
        """
        try:
            _let_errors_out()
        except BaseException as error:  # noqa: BLE001  any error
            deferred_errors.errors.append(error)
        return _DEVICE_TYPE


def operators() -> Iterator[str]:
    """The full names ("aten::add.Tensor") of all operators of PyTorch."""
    names: list[str] = torch._C._dispatch_get_all_op_names()
    return iter(names)


def has_kernel(name: str, key: str) -> bool:
    """True if a kernel was registered for exactly this dispatch key."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def runs_on(name: str, key: str) -> bool:
    """True if the operator runs for this dispatch key, directly or by decomposition."""
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key))


def overload(name: str) -> OpOverload[..., Any] | None:
    """The operator of a name such as "aten::add.Tensor", or None if Python cannot call it."""
    namespace, _, qualified_name = name.partition("::")
    packet, _, variant = qualified_name.partition(".")
    try:
        operator = getattr(getattr(getattr(torch.ops, namespace), packet), variant or "default")
    except (AttributeError, RuntimeError):  # dunder names and operators of TorchScript alone
        return None
    return operator if isinstance(operator, OpOverload) else None


def host_kernel(name: str) -> Callable[..., Any]:
    """The current CPU kernel of an operator, even if it is replaced later."""
    get_kernel: Any = getattr(torch.library, "get_kernel")  # noqa: B009  the stub leaves it out
    kernel: Any = get_kernel(name, "CPU")

    def call(*args: Any, **kwargs: Any) -> Any:
        return kernel.call_boxed(CPU_KEYS, *args, **kwargs)

    return call


def function_under(operator: OpOverload[..., Any]) -> Callable[..., Any]:
    """The function that an operator's Python object calls."""
    function: Callable[..., Any] = operator._op
    return function


def is_multithreaded() -> bool:
    """True if backward passes of this thread may run in PyTorch's device threads."""
    return bool(torch._C._is_multithreading_enabled())


def backward_sequence_number() -> int | None:
    """The number of the operator whose gradient is being computed; None outside a backward pass."""
    node: Any = torch._C._current_autograd_node()
    if node is None:
        return None
    number: int = node._sequence_nr()
    return number


def next_sequence_number() -> int:
    """The number that autograd gives the next operator of this thread."""
    autograd: Any = getattr(torch._C, "_autograd")  # noqa: B009  the stub leaves it out
    return int(autograd._get_sequence_nr())


def replace_accelerator_function(
    name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replace a C++ function that `torch.accelerator` calls by `wrap(function)`."""
    full_name = f"_accelerator_{name}"
    setattr(torch._C, full_name, wrap(getattr(torch._C, full_name)))


def gloo(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """A process group that exchanges CPU tensors."""
    from torch.distributed import (  # noqa: PLC0415  only programs that start processes need it
        distributed_c10d,
    )

    group_class: Any = getattr(distributed_c10d, "ProcessGroupGloo")  # noqa: B009  the stub leaves it out
    return group_class(store, rank, size, timeout)


@cache
def lone_group() -> Any:
    """A process group of this process alone, boxed as operators take it, to test gloo with."""
    dist: Any = import_module("torch.distributed")
    group = dist.ProcessGroup(0, 1)
    backend = gloo(dist.HashStore(), 0, 1, dt.timedelta(seconds=30))
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    group._set_group_name("trnsim/lone")
    return group.boxed()


def default_store() -> Any:
    """The store that all processes of the default group share."""
    from torch.distributed import distributed_c10d  # noqa: PLC0415  as above

    return distributed_c10d._get_default_store()


def own_store(store: Any) -> Any:
    """The same store over a separate connection, so that waiting blocks no other caller."""
    return store.clone() if hasattr(store, "clone") else store


def sum_operation() -> Any:
    """The reduction SUM, boxed as operators take it."""
    return torch.classes.c10d.ReduceOp()


def silent_ranks(ranks: Sequence[int], wait_s: float) -> list[int]:
    """The ranks that set no timestamp in the shared store within `wait_s`; this rank sets one."""
    import torch.distributed as dist  # noqa: PLC0415  only programs that start processes need it

    keys = {rank: f"trnsim/signed/{rank}" for rank in ranks}
    try:
        store = default_store()
        store.set(keys[dist.get_rank()], str(time.time()))
        time.sleep(wait_s)
        signers = [r for r in ranks if store.check([keys[r]])]
        recent_ranks = [r for r in signers if time.time() - float(store.get(keys[r])) < 2 * wait_s]
    except RuntimeError:  # the store ended with the process that held it, rank 0
        return [0] if 0 in ranks else []
    return [rank for rank in ranks if rank not in recent_ranks]


def split_by_autograd(
    forward: Callable[..., Any], backward: Callable[..., Any], is_kept: Callable[[str], bool]
) -> Any:
    """PyTorch's compiler that splits a program into a forward and a backward graph.

    Their operators are operators of core ATen, and operators whose name `is_kept`.
    """
    from torch._dynamo.backends.common import aot_autograd  # noqa: PLC0415  takes a second
    from torch._inductor import config  # noqa: PLC0415  likewise

    aot_compiler: Any = aot_autograd
    split_compiler = aot_compiler(
        fw_compiler=forward, bw_compiler=backward, decompositions=decompositions(is_kept)
    )

    def compile_split(module: Any, inputs: Any) -> Any:
        # The second version hides written arguments behind views of a common base.
        with config.patch(enable_auto_functionalized_v2=False):
            return split_compiler(module, inputs)

    return compile_split


def without_fakes() -> Any:
    """A context with real tensors: PyTorch calls a backend's compiler with fake tensors active."""
    from torch._subclasses import fake_tensor  # noqa: PLC0415  takes a second

    return fake_tensor.unset_fake_temporarily()


def without_modes() -> AbstractContextManager[Any]:
    """A context with real tensors, in which no mode sees the operators called."""
    if not torch._C._len_torch_dispatch_stack():
        return nullcontext()
    from torch.utils import _python_dispatch  # noqa: PLC0415  only under an active mode

    context: AbstractContextManager[Any] = _python_dispatch._disable_current_modes()
    return context


def _forward_metadata() -> Any:
    """PyTorch's description of the forward graph being compiled, or None."""
    from torch._guards import TracingContext  # noqa: PLC0415  takes a second

    return getattr(TracingContext.try_get(), "fw_metadata", None)


def writable_results() -> int | None:
    """The number of leading results of the forward graph being compiled that the program receives.

    The graph's other results are saved for its gradient. None if PyTorch does not give the number.
    """
    metadata = _forward_metadata()
    return None if metadata is None else int(metadata.num_forward)


composite_kernels: Final[dict[Any, Callable[..., Any]]] = {}
"""Operator -> its kernel on the device, which calls other operators; PyTorch has none for these."""


def decompositions(is_kept: Callable[[str], bool]) -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions into core ATen, except of operators whose name `is_kept`."""
    from torch._decomp import core_aten_decompositions  # noqa: PLC0415  takes a second

    table: dict[Any, Callable[..., Any]] = core_aten_decompositions()
    return {
        op: decompose for op, decompose in table.items() if not is_kept(op.name())
    } | composite_kernels


def tracing_context() -> AbstractContextManager[None]:
    """A context in which `torch.compiler.is_compiling()` is true for a model."""
    state: Any = import_module("torch.export._trace")
    context: AbstractContextManager[None] = state._compiling_state_context()
    return context


def constant_inputs() -> tuple[int, ...]:
    """The indices of a forward graph's parameters and buffers, while PyTorch compiles it."""
    metadata = _forward_metadata()
    return () if metadata is None else tuple(metadata.static_input_indices)


def with_sizes_of(module: Any, args: Sequence[Any]) -> Any:
    """A copy of `module` whose nodes have fake results for the sizes of `args`."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415  takes a second
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp  # noqa: PLC0415  likewise

    sized_module = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    fakes = FakeTensorMode(allow_non_fake_inputs=True)
    FakeTensorProp(sized_module, fakes).propagate(*args)
    return sized_module


def boxed_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in the form in which PyTorch's compiler calls a compiled graph."""
    make: Any = import_module("functorch.compile").make_boxed_func
    boxed_function: Callable[..., Any] = make(function)
    return boxed_function


def replace_engine(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap the call of the autograd engine in both modules that hold it."""
    graph: Any = torch.autograd.graph
    autograd: Any = torch.autograd
    graph._engine_run_backward = autograd._engine_run_backward = wrap(graph._engine_run_backward)


def replace_events(make: Callable[[torch.Event, bool], torch.Event]) -> None:
    """Replace `torch.Event` so that `make(event, is_timed)` creates events of the device.

    The type is C++'s and cannot be changed; its replacement accepts all events as instances.
    """
    event_class = torch.Event

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, event_class)

    class Event(event_class, metaclass=Kind):  # type: ignore[misc, valid-type]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            del cls
            event: Any = event_class(*args, **kwargs)
            is_ours = is_neuron(event.device)
            return make(event, bool(kwargs.get("enable_timing"))) if is_ours else event

    module: Any = torch
    module.Event = Event


def replace_inductor(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap the call of `torch.compile`'s default backend."""
    backend: Any = torch._TorchCompileInductorWrapper
    backend.__call__ = wrap(backend.__call__)


def make_opaque(function: Callable[..., Any]) -> None:
    """Make PyTorch's compiler put calls of `function` in its graph instead of tracing them."""
    allow_in_graph: Any = torch.compiler.allow_in_graph
    allow_in_graph(function)


def never_trace(paths: Sequence[Path]) -> None:
    """Make PyTorch's compiler run functions of these files and folders without tracing them."""
    rules: Any = import_module("torch._dynamo.trace_rules")
    rules.SKIP_DIRS.extend(path.as_posix() + ("/" if path.is_dir() else "") for path in paths)
    rules._recompile_re()


def never_compile(module: ModuleType) -> None:
    """Make PyTorch's compiler run a module's functions, and all that they call, uncompiled.

    The compiler requests the accelerator while it compiles a program, and would compile the
    function that returns it.
    """
    frames: Any = import_module("torch._C._dynamo.eval_frame")
    skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    codes = [value.__code__ for value in vars(module).values() if isinstance(value, FunctionType)]
    while codes:
        code = codes.pop()
        if code.co_filename == module.__file__:
            frames.set_code_exec_strategy(code, skip)
            codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def print_from_host() -> None:
    """Print a tensor of the device from a copy on the host, as PyTorch does for XLA's devices.

    PyTorch chooses digits with operators in float64, which no chip has and no program requested.
    """
    printer: Any = import_module("torch._tensor_str")
    tensor_text: Callable[[Tensor, int], str] = printer._tensor_str

    def host_text(tensor: Tensor, indent: int) -> str:
        return tensor_text(tensor.cpu() if is_neuron(tensor.device) else tensor, indent)

    printer._tensor_str = host_text


def is_traced(tensors: Sequence[Tensor]) -> bool:
    """True if a program is being traced: by tensors without values, or by a mode."""
    types = (torch.Tensor, torch.nn.Parameter)
    return bool(torch._C._len_torch_dispatch_stack()) or any(type(t) not in types for t in tensors)


def is_transformed(tensor: Tensor) -> bool:
    """True if a tensor is one of `torch.vmap`, or of a gradient of `torch.func`."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))  # pyright: ignore[reportAttributeAccessIssue]


def custom_operator(
    name: str,
    function: Callable[..., Any],
    mutates: Sequence[str],
    schema: str | None,
    devices: tuple[str, ...],
) -> Any:
    """A custom operator that runs `function` on tensors of `devices`."""
    define: Any = torch.library.custom_op
    return define(name, function, mutates_args=mutates, device_types=devices, schema=schema)


def trace_through(operator: Any, function: Callable[..., Any]) -> None:
    """Make PyTorch's compiler see the operators inside `operator`; exported programs keep it."""
    from torch._subclasses.functional_tensor import (  # noqa: PLC0415  takes a second
        FunctionalTensorMode,
    )
    from torch.export import _trace  # noqa: PLC0415  likewise

    is_exporting: Any = _trace.custom_triton_ops_decomposition_disabled

    def dispatch_inside(mode: Any, operator: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if is_exporting():
            return mode.__torch_dispatch__(operator, types, args, kwargs)
        with mode:
            return function(*args, **kwargs)

    operator.register_torch_dispatch(FunctionalTensorMode, dispatch_inside)


_profiler: Final[Any] = getattr(torch._C, "_profiler")  # noqa: B009  the stub leaves it out
_DeviceType: Final[Any] = getattr(torch.autograd, "DeviceType")  # noqa: B009  likewise
PROFILED_DEVICE: Final = _DeviceType.PrivateUse1
"""The device of an event of PyTorch's profiler."""
PROFILED_ACTIVITY: Final = torch.profiler.ProfilerActivity.PrivateUse1
"""The activity of the device in PyTorch's profiler."""


def profiler_scope(name: str) -> AbstractContextManager[None]:
    """A scope that PyTorch's profiler shows; nearly free if no profiler is active."""
    scope: AbstractContextManager[None] = _profiler._RecordFunctionFast(name)
    return scope


def is_on_host(event: KinetoEvent) -> bool:
    """True if an event of PyTorch's profiler begins and ends in one thread of the host."""
    is_async = event.is_async() or event.start_thread_id() != event.end_thread_id()
    return event.device_type() == _DeviceType.CPU and not is_async


def watch_through_kineto(profile: Any) -> None:
    """Make a profiler use Kineto instead of timers of the device in C++, which do not exist."""
    if profile.profiler_kind == _profiler.ProfilerState.KINETO_PRIVATEUSE1_FALLBACK:
        profile.profiler_kind = _profiler.ProfilerState.KINETO_PRIVATEUSE1
        profile.kineto_activities.add(PROFILED_ACTIVITY)


def exported_program(
    program: object, weights: dict[str, Tensor], constants: dict[str, Tensor]
) -> torch.export.ExportedProgram:
    """The program from the JSON of a trusted archive, on given weights and constants."""
    serde: Any = import_module("torch._export.serde.serialize")  # few programs are exported
    schema = serde._dict_to_dataclass(serde.ExportedProgram, program)
    reader = serde.ExportedProgramDeserializer()
    return cast("torch.export.ExportedProgram", reader.deserialize(schema, weights, constants, b""))


def serialized_dtype(number: int) -> torch.dtype:
    """The dtype that an archive of an exported program denotes by a number."""
    serde: Any = import_module("torch._export.serde.serialize")
    return cast("torch.dtype", serde._SERIALIZE_TO_TORCH_DTYPE[number])
