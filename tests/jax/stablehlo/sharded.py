"""A program of several devices: the graph of each, run side by side, and XLA's CPU on one device.

Exchanges are numpy's here: no line of the emulator's own is read for them.
"""

from functools import cache, partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import xla_client

from trnsim.graph.graph import reference_of
from trnsim.graph.ops.control_flow import While
from trnsim.graph.types import round_to_dtype
from trnsim.jax import private
from trnsim.jax.partitioning import device_program
from trnsim.jax.stablehlo import Device, graph_of

_QUICK = {"xla_backend_optimization_level": 0}
_REDUCED = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}


def mesh_of(**axes):
    """A mesh of CPU devices, its axes by name."""
    count = int(np.prod(list(axes.values())))
    return Mesh(np.array(jax.devices("cpu")[:count]).reshape(*axes.values()), tuple(axes))


def placed(mesh, specs):
    """Shardings of a tree of specifications."""
    is_leaf = lambda one: isinstance(one, P)  # noqa: E731
    return jax.tree.map(lambda one: NamedSharding(mesh, one), specs, is_leaf=is_leaf)


@cache
def _client(devices):
    return private.cpu_client(devices)


def local_module(jitted, given, devices):
    """The module of each device, as the partitioner writes it."""
    lowered = jitted.lower(*given)
    module = lowered.compiler_ir("stablehlo")
    client = _client(devices)
    options = xla_client.CompileOptions()
    private.set_assignment(options, np.arange(devices, dtype=np.int32).reshape(1, devices))
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = True

    def load(overrides):
        options.env_option_overrides = list(overrides)
        return client.compile_and_load(module, private.device_list(client.devices()), options)

    return private.module_of(device_program(load))


def graphs_of(jitted, given, devices):
    """The import of each device."""
    module = local_module(jitted, given, devices)
    return [graph_of(module, Device(number, devices)) for number in range(devices)]


def agree_sharded(function, mesh, given, specs, *, results=None, alone=None, tolerance=1e-5):
    """Each device's graph gives its share of what one CPU device gives; the imports.

    `alone` is the function without mention of the mesh.
    """
    options = {} if results is None else {"out_shardings": placed(mesh, results)}
    jitted = jax.jit(function, in_shardings=placed(mesh, specs), **options)
    devices = mesh.devices.size
    imports = graphs_of(jitted, given, devices)
    arrays = [np.asarray(one) for one in jax.tree.leaves(given)]
    compiled = jitted.lower(*given).compile(_QUICK)
    given_at, made_at = (
        jax.tree.leaves(side) for side in (compiled.input_shardings[0], compiled.output_shardings)
    )
    shares = [_shares(one, place, mesh) for one, place in zip(arrays, given_at, strict=True)]
    inputs = zip(*shares, strict=True)
    found = side_by_side(
        [(one.graph, one.arguments(own)) for one, own in zip(imports, inputs, strict=True)]
    )
    first = jax.device_put(given, jax.devices("cpu")[0])
    wanted = jax.tree.leaves(jax.jit(alone or function, compiler_options=_QUICK)(*first))
    assert len(wanted) == len(found[0]) > 0
    for at, one in enumerate(map(np.asarray, wanted)):
        largest = max(1.0, float(np.abs(np.nan_to_num(one.astype(np.float64))).max(initial=0)))
        shares = _shares(one, made_at[at], mesh)
        for ours, share in zip((results[at] for results in found), shares, strict=True):
            assert (ours.shape, ours.dtype) == (share.shape, share.dtype)
            near(ours, share, tolerance * largest)
    return imports


def near(ours, theirs, tolerance):
    """Elements are equal within an absolute tolerance."""
    wide = (one.astype(np.float64) for one in (ours, theirs))
    np.testing.assert_allclose(*wide, rtol=0, atol=tolerance)


def _shares(array, sharding, mesh):
    """The part of an array on each device of a mesh, in the mesh's order."""
    places = sharding.devices_indices_map(array.shape)
    return [array[places[device]] for device in mesh.devices.ravel()]


def side_by_side(programs):
    """What graphs give that exchange values, one graph and its inputs a device."""
    walks = [_walk(*one) for one in programs]
    sent = [_next(walk, None) for walk in walks]
    while sent[0][0] is not None:
        assert all(node.operation == sent[0][0].operation for node, _ in sent)
        received = _exchanged(sent[0][0].operation, [operand for _, operand in sent])
        received = [round_to_dtype(one, sent[0][0].result.dtype) for one in received]
        sent = [_next(walk, one) for walk, one in zip(walks, received, strict=True)]
    return [outputs for _, outputs in sent]


def _next(walk, received):
    try:
        return walk.send(received)
    except StopIteration as end:
        return None, end.value


def _walk(graph, given):
    """A graph's outputs; it stops at each exchange for the result."""
    known = {value.number: array for value, array in zip(graph.inputs, given, strict=True)}
    for node in graph.nodes:
        operands = [known[one.number] if hasattr(one, "number") else one for one in node.operands]
        if node.kind.name == "COLLECTIVE":
            found = ((yield node, operands[0]),)
        elif isinstance(node.operation, While):
            found = operands
            while bool((yield from _walk(node.operation.condition, found))[0]):
                found = yield from _walk(node.operation.body, found)
        elif hasattr(node.operation, "branches"):
            place, last = int(operands[0]), len(node.operation.branches) - 1
            is_else = node.name == "if" and not place
            chosen = last if is_else else 0 if node.name == "if" else min(place, last)
            found = yield from _walk(node.operation.branches[chosen], operands[1:])
        else:
            with np.errstate(all="ignore"):
                found = reference_of(node, operands)
        known.update(zip((value.number for value in node.results), found, strict=True))
    return [known[value.number] for value in graph.outputs]


def _exchanged(operation, operands):
    wide = [one.astype(np.float64) if one.dtype.kind not in "iub" else one for one in operands]
    if operation.name == "collective_permute":
        found = [np.zeros_like(one) for one in wide]
        for source, target in operation.source_target_pairs:
            found[target] = wide[source]
        return found
    found = [None] * len(wide)
    for group in operation.replica_groups:
        exchange = partial(_EXCHANGES[operation.name], operation, [wide[one] for one in group])
        for member, one in enumerate(group):
            found[one] = exchange(member)
    return found


def _all_to_all(operation, group, member):
    parts = [np.split(one, len(group), operation.split_dim)[member] for one in group]
    return np.concatenate(parts, operation.concat_dim)


def _reduced(operation, group):
    return _REDUCED[operation.op](np.stack(group), 0).astype(group[0].dtype)


_EXCHANGES = {
    "all_reduce": lambda operation, group, _: _reduced(operation, group),
    "all_gather": lambda operation, group, _: np.concatenate(group, operation.dim),
    "all_to_all": _all_to_all,
    "reduce_scatter": lambda operation, group, member: np.split(
        _reduced(operation, group), len(group), operation.dim
    )[member],
}
