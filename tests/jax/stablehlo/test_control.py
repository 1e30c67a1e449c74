"""Calls, branches and loops: unrolled, repeated, or as values decide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BLOCK, agree, module_of, names
from jax import lax

from trnsim.graph import Kind
from trnsim.jax.stablehlo import control, graph_of
from trnsim.lower import costs


def kinds(imported):
    return [node.name for node in imported.graph.nodes if node.kind is Kind.CONTROL]


def scanned(x):
    return lax.scan(lambda c, v: (c * 0.5 + v, c.sum()), jnp.zeros(x.shape[1:]), x)


def backwards(x):
    return lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.zeros(x.shape[1:]), x, reverse=True)


def counted(x):
    table = jnp.array([1.0, 5, 2, 3])
    return lax.fori_loop(2, 7, lambda i, c: c * 0.5 + i + table, x)


LOOPS = (scanned, backwards, counted)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_with_few_known_trips_is_unrolled(loop):
    found = agree(loop, BLOCK, tolerance=1e-4)
    assert kinds(found) == []
    assert "dynamic_slice" not in names(found)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_with_many_known_trips_stays_one(loop, monkeypatch):
    monkeypatch.setattr(control, "MOST_UNROLLED_OPERATIONS", 0)
    found = agree(loop, BLOCK, tolerance=1e-4)
    assert kinds(found) == ["while"]
    (node,) = (one for one in found.graph.nodes if one.name == "while")
    assert node.operation.trips == (5 if loop is counted else 6)
    assert sum(one.device_time_s for one in costs(found.graph, "trn2")) > 0


@pytest.mark.parametrize(
    ("start", "bound", "step", "trips"), [(0, 5, 1, 5), (0, 5, 2, 3), (3, 3, 1, 0), (9, 2, 1, 0)]
)
def test_trips_of_a_count_upwards(start, bound, step, trips, monkeypatch):
    monkeypatch.setattr(control, "MOST_UNROLLED_OPERATIONS", -1)

    def loop(x):
        return lax.while_loop(lambda c: c[0] < bound, lambda c: (c[0] + step, c[1] * 2), (start, x))

    found = agree(loop, BLOCK)
    (node,) = (one for one in found.graph.nodes if one.name == "while")
    assert node.operation.trips == trips


def test_trips_of_a_count_downwards(monkeypatch):
    monkeypatch.setattr(control, "MOST_UNROLLED_OPERATIONS", 0)

    def loop(x):
        return lax.while_loop(lambda c: 2 <= c[0], lambda c: (c[0] - 3, c[1] * 2), (9, x))  # noqa: SIM300  JAX has it so

    (node,) = (one for one in agree(loop, BLOCK).graph.nodes if one.name == "while")
    assert node.operation.trips == 3


def test_a_loop_that_values_end():
    def loop(x):
        more = jnp.array([1.0, 2, 3])
        return lax.while_loop(
            lambda c: c[0] < x[0, 0, 1] * 0 + 50.0,
            lambda c: (c[0] * 2 + 1, c[1] + more),
            (x[0, 0, 0] ** 2, jnp.zeros(3)),
        )

    found = agree(loop, BLOCK)
    (node,) = (one for one in found.graph.nodes if one.name == "while")
    assert node.operation.trips is None


def test_loops_within_loops():
    agree(lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, i + 1, _more, c), x), BLOCK)
    agree(lambda x: lax.map(lambda row: jnp.dot(row.T, row), x), BLOCK, tolerance=1e-4)


def _more(i, c):
    return c * 0.5 + i


def test_loops_within_loops_that_stay(monkeypatch):
    monkeypatch.setattr(control, "MOST_UNROLLED_OPERATIONS", 4)
    table = np.arange(4, dtype=np.float32)
    found = agree(
        lambda x: lax.fori_loop(
            0, 3, lambda _, c: lax.fori_loop(0, 5, lambda i, d: d * 0.5 + table + i, c), x
        ),
        BLOCK,
    )
    assert kinds(found) == ["while"]
    assert [one.tolist() for one in found.constants.values()] == [table.tolist()]


def test_gradients_through_a_loop():
    def loss(x):
        return lax.scan(jax.checkpoint(lambda c, v: (jnp.tanh(c * v), None)), x[0], x)[0].sum()

    found = agree(jax.value_and_grad(loss), BLOCK)
    assert kinds(found) == []


@pytest.mark.slow_but("1", "5")
@pytest.mark.parametrize("index", [-1, 0, 1, 2, 5])
def test_branches_that_values_choose(index):
    table = np.array([1.0, 5, 2, 3], np.float32)
    found = agree(
        lambda x, i: lax.switch(i, [lambda b: b * 2, lambda b: b + table, jnp.sin], x),
        BLOCK,
        np.int32(index),
    )
    assert kinds(found) == ["case"]
    agree(lambda x, i: lax.cond(i > 0, lambda b: b * 2, lambda b: b + table, x), BLOCK, index)


def test_branches_that_are_known():
    for index in (-1, 1, 7):
        found = agree(lambda x, i=index: lax.switch(i, [lambda b: b * 2, jnp.sin], x), BLOCK)
        assert kinds(found) == []


def test_a_branch_of_two():
    from agreeing import agree_text  # noqa: PLC0415  beside its only use

    text = """func.func public @main(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "stablehlo.if"(%p) ({
        %1 = stablehlo.negate %a : tensor<2xf32>
        stablehlo.return %1 : tensor<2xf32>
      }, {
        stablehlo.return %a : tensor<2xf32>
      }) : (tensor<i1>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    for pred in (True, False):
        found = agree_text(text, np.bool_(pred), np.array([1.0, -2], np.float32))
    assert kinds(found) == ["if"]


def test_functions_are_inlined():
    found = agree(lambda x: jax.jit(jax.jit(jnp.sin))(x) + jax.jit(jnp.cos)(x), BLOCK)
    assert names(found) == ["sine", "cosine", "add"]


def test_a_barrier_passes():
    assert names(agree(lambda x: lax.optimization_barrier(x) + 1, BLOCK)) == ["add"]


def test_tuples_and_tokens():
    from agreeing import parsed  # noqa: PLC0415  beside its only use

    text = """func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %u = stablehlo.after_all %t : !stablehlo.token
      %0 = stablehlo.tuple %a, %u : tuple<tensor<2xf32>, !stablehlo.token>
      %1 = stablehlo.get_tuple_element %0[0]
        : (tuple<tensor<2xf32>, !stablehlo.token>) -> tensor<2xf32>
      return %1 : tensor<2xf32> }"""
    found = graph_of(parsed(text))
    assert found.outputs == found.inputs


def test_the_operations_of_all_trips_are_listed():
    found = graph_of(module_of(scanned, BLOCK))
    assert found.operators.count("stablehlo.dynamic_update_slice") == 6


def test_a_loop_whose_counter_stays_has_no_known_trips():
    def stays(x):
        return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 0, c[1]), (5, x))

    imported = graph_of(module_of(stays, BLOCK))
    (loop,) = [node for node in imported.graph.nodes if node.kind is Kind.CONTROL]
    assert loop.operation.trips is None
