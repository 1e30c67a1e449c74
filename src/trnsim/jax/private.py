"""The undocumented interfaces of JAX that the device uses, each in one place.

Tested with jax 0.8 to 0.10 (`trnsim.jax.versions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt
from jax._src import core as jax_core
from jax._src import distributed, hardware_utils, source_info_util, xla_bridge
from jax._src.interpreters import mlir
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import xla_client

from trnsim.device.loopback import LOOPBACK, free_port
from trnsim.jax import wire
from trnsim.jax.host_callbacks import TARGETS, functions
from trnsim.jax.memory_kinds import main_function

PLATFORM: Final = "neuron"
FOLDER: Final = str(Path(jax.__file__).parent)
"""The folder of JAX's code."""
_xla: Final[Any] = vars(xla_client)["_xla"]


def register(c_api: Any, priority: int) -> None:
    """Register the plugin under its platform's name."""
    xla_bridge.register_plugin(PLATFORM, c_api=c_api, priority=priority, factory=_neuron_client)


def _neuron_client() -> Any:
    """The neuron client, which connects to other processes by itself (`Meeting`).

    JAX's own function would hand it the service of `jax.distributed`, only to watch it from a
    thread that outlives the service, and complains when a program ends.
    """
    if not xla_client.pjrt_plugin_initialized(PLATFORM):
        xla_client.initialize_pjrt_plugin(PLATFORM)
    return xla_client.make_c_api_client(PLATFORM)


def is_registered() -> bool:
    """True if a plugin has taken the platform's name."""
    return PLATFORM in xla_bridge._backend_factories  # noqa: SLF001


def client() -> Any:
    """The neuron client that JAX made, or None."""
    return xla_bridge._backends.get(PLATFORM)  # noqa: SLF001


def requested_platforms() -> list[str]:
    """The platforms that the program asks for (JAX_PLATFORMS or `jax.config`)."""
    config: Any = jax.config
    return [name for name in str(config.jax_platforms or "").split(",") if name]


def accelerator() -> str:
    """The name of an accelerator of JAX's own in this machine, or ""."""
    if hardware_utils.has_visible_nvidia_gpu():
        return "gpu"
    tpus: Any = hardware_utils
    if tpus.num_available_tpu_chips_and_device_id()[0]:
        return "tpu"
    return ""


def joined_processes() -> tuple[int, int]:
    """(Number of this process, number of processes), as `jax.distributed.initialize` set them."""
    state = distributed.global_state
    return (0, 1) if state.client is None else (state.process_id, state.num_processes)


class Meeting:
    """A service where the private clients of several processes on one machine meet.

    Attributes:
        index: the number of this process.
    """

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        self._service: Any = None
        jax_own: Any = distributed.global_state.client
        if index == 0:
            address = f"{LOOPBACK}:{free_port()}"
            self._service = _xla.get_distributed_runtime_service(address, count)
            jax_own.key_value_set(_ADDRESS_KEY, address)
        address = jax_own.blocking_key_value_get(_ADDRESS_KEY, _PEERS_TIMEOUT_S * 1000)
        self.client = _xla.get_distributed_runtime_client(
            address, index, init_timeout=_PEERS_TIMEOUT_S
        )
        self.client.connect()

    def exchange(self) -> Any:
        """XLA's collectives between the processes."""
        return _xla.make_gloo_tcp_collectives(self.client, hostname=LOOPBACK)

    def end(self) -> None:
        """Leave the service, once all processes do."""
        self.client.shutdown()
        if self._service is not None:
            self._service.shutdown()


_ADDRESS_KEY: Final = "trnsim/meeting"
_PEERS_TIMEOUT_S: Final = 300
"""Time for which a process waits for the others: as in `jax.distributed.initialize`."""


def cpu_client(count: int, meeting: Meeting | None = None) -> Any:
    """XLA's CPU client: `count` devices of this process, and the devices of other processes."""
    if meeting is None:
        return xla_client.make_cpu_client(num_devices=count)
    return xla_client.make_cpu_client(
        num_devices=count,
        distributed_client=meeting.client,
        node_id=meeting.index,
        num_nodes=meeting.count,
        collectives=meeting.exchange(),
    )


def single_device(device: Any) -> Any:
    """The sharding of an array on one device."""
    return jax.sharding.SingleDeviceSharding(device)


def put(array: npt.NDArray[Any], sharding: Any, device: Any) -> Any:
    """A copy of a numpy array on a device, made before this returns.

    Its dtype stays: a program that was compiled without jit may have 64 bits where JAX has 32.
    """
    aval = _aval(array.shape, array.dtype)
    during_call = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
    return _xla.batched_device_put(
        aval, sharding, [array], [device], host_buffer_semantics=during_call, enable_x64=True
    )


def result_handler(shape: tuple[int, ...], dtype: np.dtype[Any], sharding: Any) -> Any:
    """The maker of arrays from one result of a program, for `consume_with_handlers`.

    Shape and sharding are computed once, which `disassemble` computes for each array.
    """
    return _xla.array_result_handler(
        _aval(shape, dtype), sharding, committed=True, _skip_checks=True
    )


@cache
def _aval(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return jax_core.ShapedArray(shape, dtype)


@cache
def _replicated_sharding(devices: tuple[Any, ...]) -> Any:
    return GSPMDSharding(devices, xla_client.HloSharding.replicate())


def no_results_sharding() -> Any:
    """The sharding that XLA demands for an empty row of results."""
    return xla_client.HloSharding.replicate().to_proto()


def join_arrays(arrays: Sequence[Any], devices: Sequence[Any]) -> Any:
    """Arrays of one shape, one on each device, as one array."""
    first = arrays[0]
    aval = _aval(first.shape, first.dtype)
    sharding = _replicated_sharding(tuple(devices))
    return xla_client.ArrayImpl(aval, sharding, list(arrays), committed=True, _skip_checks=True)


def options_of(serialized: bytes) -> Any:
    """Compile options from the bytes in which JAX sends them."""
    return xla_client.CompileOptions.ParseFromString(serialized)


def assignment_of(devices: npt.NDArray[np.int32]) -> Any:
    """A device assignment: [replica, partition] -> device number."""
    return xla_client.DeviceAssignment.create(devices)


def device_list(devices: Sequence[Any]) -> Any:
    """Devices as jaxlib takes them."""
    return xla_client.DeviceList(tuple(devices))


def load(
    client: Any, module: Any, devices: Sequence[Any], options: Any, callbacks: Sequence[Any]
) -> Any:
    """A program compiled by a client for devices, with the functions of Python that it calls."""
    return client.compile_and_load(module, device_list(devices), options, list(callbacks))


def call_python(op: Any, place: int) -> None:
    """Turn a custom call into a call of one of the program's Python callbacks.

    `place` is the callback's index among them.
    """
    from jaxlib.mlir import ir  # noqa: PLC0415  slow to import, and only compiling needs it

    with op.context:
        number = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), place)
        version = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _TYPED_CALL_VERSION)
        if op.attributes["call_target_name"].value not in TARGETS:
            op.attributes["call_target_name"] = ir.StringAttr.get(TARGETS[0])
        op.attributes["api_version"] = version
        op.attributes["backend_config"] = ir.DictAttr.get({"index": number})


def callback_number(op: Any) -> int:
    """The number of the function that a custom call of JAX names; it is removed from the call."""
    name = "mhlo.backend_config" if "mhlo.backend_config" in op.attributes else "backend_config"
    number = int(op.attributes[name]["index"])
    del op.attributes[name]
    return number


def zeros_of(op: Any) -> Callable[[], tuple[Any, ...]]:
    """The function that gives zeros for the results of an operation; None for a token."""
    from trnsim.jax.stablehlo.mlir import is_tensor, shape_of  # noqa: PLC0415  slow to import

    specs = [
        (shape_of(ssa.type), _dtype_of(ssa.type)) if is_tensor(ssa.type) else None
        for ssa in op.results
    ]
    return lambda: tuple(None if spec is None else np.zeros(*spec) for spec in specs)


def _dtype_of(tensor_type: Any) -> np.dtype[Any]:
    """The dtype of the elements of a tensor's type, of whatever types JAX has."""
    from jaxlib.mlir import ir  # noqa: PLC0415  slow to import, and only compiling needs it

    element_type = ir.RankedTensorType(tensor_type).element_type
    types: dict[np.dtype[Any], Callable[[], Any]] = mlir._dtype_to_ir_type  # noqa: SLF001
    with tensor_type.context:
        return next(
            dtype
            for dtype, type_of in types.items()
            if dtype != jax.dtypes.float0 and type_of() == element_type
        )


_TYPED_CALL_VERSION: Final = 4  # XLA's interface of typed custom calls


def lower_callbacks(client_of: Callable[[], Any]) -> None:
    """Let the platform have JAX's callbacks, lowered as for the CPU whose client is given."""
    on_cpu = mlir._platform_specific_lowerings["cpu"]  # noqa: SLF001
    rules = {**mlir._lowerings, **on_cpu}  # noqa: SLF001
    for primitive, entry in rules.items():
        if primitive.name in _CALLBACKS:
            rule = _cpu_rule(entry.rule, client_of)
            mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=False)


def _cpu_rule(rule: Any, client_of: Callable[[], Any]) -> Any:
    """A lowering rule of callbacks for a CPU, whose functions are numbered in this process."""

    def lower(ctx: Any, *arguments: Any, **parameters: Any) -> Any:
        module = copy(ctx.module_context)
        module.platforms, module.backend = ("cpu",), client_of()
        module.host_callbacks = _ProcessFunctions(module.keepalives)
        on_cpu = ctx.replace(module_context=module)
        results = rule(on_cpu, *arguments, **parameters)
        ctx.tokens_out = on_cpu.tokens_out
        return results

    return lower


class _ProcessFunctions:
    """The functions of this process; the functions of a program live as long as it."""

    def __init__(self, keepalives: list[Any]) -> None:
        self._keepalives = keepalives

    def __len__(self) -> int:
        return len(functions)

    def append(self, function: Callable[..., Any]) -> None:
        functions.append(function)
        self._keepalives.append(function)


def insert_same_axes(arrays: Sequence[Any]) -> list[Any]:
    """Arrays that vary over the same axes of the mesh, as the operands of one operation must."""
    core: Any = jax_core
    is_old = not hasattr(core, "auto_insert_reshard")  # of JAX 0.8
    return list((core.standard_insert_pvary if is_old else core.auto_insert_reshard)(*arrays))


def result_like(aval: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """The abstract value of a result that varies over the mesh as an operand does."""
    core: Any = jax_core
    sharding = core.get_cur_mesh_sharding()
    return aval.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)


def platforms_of(context: Any) -> tuple[str, ...]:
    """The platforms for which an operation is lowered."""
    return tuple(context.module_context.platforms)


def lines() -> list[tuple[str, int]]:
    """(File, line) of the stack at which the present operation was traced, innermost first.

    The list is empty if JAX has no stack.
    """
    traceback = source_info_util.current().traceback
    return [(frame.file_name, frame.line_num) for frame in traceback.frames] if traceback else []


def stablehlo_versions() -> list[list[int]]:
    """The newest and the oldest version of StableHLO that this JAX can read."""
    from jaxlib.mlir.dialects import stablehlo  # noqa: PLC0415  slow to import

    versions = stablehlo.get_current_version(), stablehlo.get_minimum_version()
    return [[int(part) for part in version.split(".")] for version in versions]


def module_of(code: bytes) -> Any:
    """The StableHLO module of a program that JAX sends: MLIR's portable form, bytes or text."""
    from jaxlib.mlir import ir  # noqa: PLC0415  slow to import, and only compiling needs it
    from jaxlib.mlir.dialects import stablehlo  # noqa: PLC0415

    context = mlir.make_ir_context()
    try:
        return stablehlo.deserialize_portable_artifact(context, code)
    except Exception:  # noqa: BLE001  the bindings raise several kinds for what is no artifact
        with context:
            return ir.Module.parse(code)


def stablehlo_of(hlo: bytes) -> bytes:
    """A module of HLO as MLIR's bytes of a module of StableHLO."""
    return bytes(_xla.mlir.hlo_to_stablehlo(hlo))


def hlo_of(module: Any) -> bytes:
    """A module of StableHLO as a serialized module of HLO, without optimization."""
    text = module.operation.get_asm(enable_debug_info=True)
    computation = _xla.mlir.mlir_module_to_xla_computation(text, False, False)
    serialized: bytes = computation.as_serialized_hlo_module_proto()
    return serialized


def program_shape(hlo: Any) -> list[list[tuple[tuple[int, ...], np.dtype[Any] | None]]]:
    """[(shape, dtype) of each parameter, (shape, dtype) of each result] on each device.

    The dtype of a token, which orders effects and has no elements, is None.
    """
    computation = xla_client.XlaComputation(hlo.as_serialized_hlo_module_proto())
    shape = computation.program_shape()
    result = shape.result_shape()
    results = result.tuple_shapes() if result.is_tuple() else [result]
    return [
        [
            (tuple(leaf.dimensions()), np.dtype(leaf.numpy_dtype()))
            if leaf.is_array()
            else ((), None)
            for leaf in shapes
        ]
        for shapes in (shape.parameter_shapes(), results)
    ]


def name_of(module: Any) -> str:
    """The name of a module, as profiles show it."""
    attributes = module.operation.attributes
    return str(attributes["sym_name"].value) if "sym_name" in attributes else "main"


_DONATION_ATTRIBUTES: Final = ("tf.aliasing_output", "jax.buffer_donor")


def donors(module: Any) -> frozenset[int]:
    """The arguments of a module's main function whose memory it may take."""
    main = main_function(module)
    if main is None or "arg_attrs" not in main.attributes:
        return frozenset()
    entries = enumerate(main.attributes["arg_attrs"])
    return frozenset(
        index for index, entry in entries if any(name in entry for name in _DONATION_ATTRIBUTES)
    )


def assignment_in(options: Any) -> npt.NDArray[np.int32] | None:
    """The device of each replica and partition in compile options, or None."""
    assignment = options.device_assignment or options.executable_build_options.device_assignment
    if assignment is None:
        return None
    return wire.assignment(assignment.serialize())


def set_assignment(options: Any, devices: npt.NDArray[np.int32]) -> None:
    """Set the devices of a program in its compile options."""
    options.num_replicas, options.num_partitions = devices.shape
    options.device_assignment = assignment_of(devices)


def shards(array: Any) -> list[Any]:
    """The parts of an array on each device of this process."""
    return array._arrays  # type: ignore[no-any-return]  # noqa: SLF001


def capsule_of(array: Any) -> Any:
    """A capsule of DLPack over the memory of an array on a CPU."""
    return _xla.buffer_to_dlpack_managed_tensor(array, stream=None)


def install_dlpack(make_capsule: Callable[..., Any], device: Callable[[], tuple[int, int]]) -> None:
    """Let other frameworks take neuron arrays, by capsules of `make_capsule` on `device`."""
    array_class: Any = xla_client.ArrayImpl
    jax_dlpack, jax_dlpack_device = array_class.__dlpack__, array_class.__dlpack_device__

    @wraps(jax_dlpack)
    def __dlpack__(  # noqa: N807  the protocol's name
        self: Any, *, dl_device: Any = None, copy: bool | None = None, **options: Any
    ) -> Any:
        if _is_on_one_device(self):
            return make_capsule(self, dl_device, copy)
        return jax_dlpack(self, dl_device=dl_device, copy=copy, **options)

    @wraps(jax_dlpack_device)
    def __dlpack_device__(self: Any) -> Any:  # noqa: N807
        return device() if _is_on_one_device(self) else jax_dlpack_device(self)

    array_class.__dlpack__, array_class.__dlpack_device__ = __dlpack__, __dlpack_device__


def _is_on_one_device(array: Any) -> bool:
    """True if an array lies on a single neuron device."""
    devices = array.sharding.device_set
    return len(devices) == 1 and next(iter(devices)).platform == PLATFORM


def lower_decompositions() -> None:
    """Register JAX's decompositions of matrices, which have rules for CPUs alone.

    LAPACK computes them on the host (eigenvalues, Schur's and Hessenberg's forms). The rule of the
    LU decomposition is JAX's own, for arrays that do not vary over a mesh.
    """
    rules: dict[Any, Any] = mlir._lowerings  # noqa: SLF001
    on_cpu = mlir._platform_specific_lowerings["cpu"]  # noqa: SLF001
    for primitive, entry in on_cpu.items():
        if primitive not in rules and primitive.name not in _CALLBACKS:
            mlir.register_lowering(primitive, entry.rule, platform=PLATFORM, inline=entry.inline)
    for primitive, entry in rules.items():
        if primitive.name == "lu":
            rule = _rule_of_plain_arrays(entry.rule)
            mlir.register_lowering(primitive, rule, platform=PLATFORM, inline=entry.inline)


_CALLBACKS: Final = ("debug_callback", "debug_print", "pure_callback", "io_callback")
"""Primitives of callbacks, which `lower_callbacks` lowers."""


def lower_placements() -> None:
    """Let the platform's programs move arrays between memories, as a GPU's and a TPU's do."""
    rules: dict[Any, Any] = mlir._platform_specific_lowerings["tpu"]  # noqa: SLF001
    for primitive, entry in list(rules.items()):
        if primitive.name == "device_put":
            mlir.register_lowering(primitive, entry.rule, platform=PLATFORM, inline=entry.inline)


def _rule_of_plain_arrays(rule: Any) -> Any:
    """A lowering rule that ignores the axes of a mesh over which its arrays vary."""

    def lower(ctx: Any, *arguments: Any, **parameters: Any) -> Any:
        plain_avals = [_aval(aval.shape, aval.dtype) for aval in ctx.avals_in]
        return rule(ctx.replace(avals_in=plain_avals), *arguments, **parameters)

    return lower
