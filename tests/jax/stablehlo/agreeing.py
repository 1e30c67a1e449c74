"""A program by XLA's CPU and by the graph that is imported of it."""

import jax
import ml_dtypes
import numpy as np
from jax._src.interpreters.mlir import make_ir_context
from jaxlib import xla_client
from jaxlib.mlir import ir

from trnsim.jax.stablehlo import graph_of

EDGES = np.array(
    [[0.0, -0.0, 1.0, -1.5, 2.5, np.inf], [-np.inf, np.nan, 1e-3, 3.0, -7.25, 0.5]], np.float32
)
WHOLE = np.array([[0, 1, -1, 2**31 - 1, -(2**31), 7], [5, -6, 3, 100, 2, 2]], np.int32)
BLOCK = np.random.default_rng(1).standard_normal((6, 5, 4)).astype(np.float32)
BFLOAT16 = ml_dtypes.bfloat16


def module_of(function, *given, platform=None):
    """The module of StableHLO of a function on arrays, for XLA's CPU or another platform."""
    jitted = jax.jit(function)
    if platform is None:
        return jitted.lower(*given).compiler_ir("stablehlo")
    return jitted.trace(*given).lower(lowering_platforms=(platform,)).compiler_ir("stablehlo")


def same(found, wanted, tolerance):
    """Arrays of one type are equal: integers exactly, floating point within a tolerance."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
    else:
        ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def agree(function, *given, tolerance=1e-5, platform=None):
    """What is imported of a function gives what XLA's CPU gives; the import."""
    imported = graph_of(module_of(function, *given, platform=platform))
    arrays = [np.asarray(one) for one in jax.tree.leaves(given)]
    with np.errstate(all="ignore"):
        found = imported.reference(arrays)
    wanted = jax.tree.leaves(jax.jit(function)(*given))
    assert len(found) == len(wanted) > 0
    for ours, theirs in zip(found, wanted, strict=True):
        same(ours, theirs, tolerance)
    return imported


def parsed(text):
    """A module of StableHLO from its text, or from the lines of its main function."""
    return ir.Module.parse(text, make_ir_context())


def agree_text(text, *given, tolerance=1e-5):
    """What is imported of a module's text gives what XLA's CPU gives; the import."""
    imported = graph_of(parsed(text))
    client = jax.devices("cpu")[0].client
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    program = client.compile_and_load(text, devices)
    results = program.execute_sharded([jax.device_put(one) for one in given])
    wanted = [one[0] for one in results.disassemble_into_single_device_arrays()]
    with np.errstate(all="ignore"):
        found = imported.reference(list(given))
    assert len(found) == len(wanted) > 0
    for ours, theirs in zip(found, wanted, strict=True):
        same(ours, theirs, tolerance)
    return imported


def names(imported):
    """The operations of an imported graph."""
    return [node.name for node in imported.graph.nodes]
