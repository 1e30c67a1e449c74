"""Modules as graphs: their arguments, results, constants, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BLOCK, agree, module_of, parsed

from trnsim.errors import BadInput, NotModelled
from trnsim.graph import verify
from trnsim.jax.stablehlo import graph_of


def test_arguments_and_results_come_in_order():
    found = agree(lambda x, y: (y["b"] + 1, x, y["a"] * 2), BLOCK, {"a": BLOCK[0], "b": BLOCK[1]})
    assert [*found.names.values()] == ["x", "y['a']", "y['b']"]
    assert [one.shape for one in found.inputs] == [(6, 5, 4), (5, 4), (5, 4)]
    assert [one.shape for one in found.outputs] == [(5, 4), (6, 5, 4), (5, 4)]
    assert found.outputs[1] == found.inputs[0]
    verify(found.graph)


def test_an_argument_that_nothing_reads_stays():
    text = """func.func public @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
      return %b : tensor<3xf32> }"""
    found = graph_of(parsed(text))
    assert [one.shape for one in found.graph.inputs] == [(2,), (3,)]
    assert [*found.names.values()] == ["arg0", "arg1"]


def test_a_program_of_numbers_alone():
    found = agree(lambda: (jnp.float32(2) + 1, jnp.arange(3)))
    assert found.inputs == ()


def test_results_of_no_elements_and_no_results():
    agree(lambda x: (x[:0], x * 2), BLOCK)
    assert graph_of(parsed("func.func public @main() { return }")).outputs == ()


def test_a_constant_that_is_read_twice_is_one_input():
    table = np.array([1.0, 2, 3, 4], np.float32)
    found = agree(lambda x: (x * table, x + table), BLOCK)
    assert len(found.constants) == 1
    given = found.arguments([BLOCK])
    np.testing.assert_array_equal(given[1], table)


@pytest.mark.slow
def test_the_graph_keeps_nothing_of_the_module():
    module = module_of(jnp.sin, BLOCK)
    found = graph_of(module)
    del module
    jax.clear_caches()
    np.testing.assert_allclose(found.reference([BLOCK])[0], np.sin(BLOCK), rtol=1e-6)


def test_a_module_without_a_main_is_refused():
    with pytest.raises(BadInput, match=r"^a module without a function main"):
        graph_of(parsed("func.func private @other() { return }"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [("f64", "float64"), ("i64", "int64"), ("complex<f32>", "complex<f32>"), ("ui16", "uint16")],
)
def test_an_argument_of_a_type_that_no_core_stores_is_refused(kind, name):
    text = f"func.func public @main(%a: tensor<3x{kind}>) {{ return }}"
    with pytest.raises(NotModelled) as refused:
        graph_of(parsed(text))
    assert refused.value.reason.startswith(
        f"argument 0 of main: a tensor of {name}; a NeuronCore stores float32, bfloat16"
    )
    assert refused.value.source == "nki.api.shared.rst, Supported Data Types"


def test_an_argument_that_is_no_tensor_is_refused():
    text = "func.func public @main(%a: !stablehlo.token) { return }"
    with pytest.raises(
        NotModelled, match=r"^argument 0 of main: a value of type !stablehlo\.token"
    ):
        graph_of(parsed(text))


SHARED = """module {{
  sdy.mesh @mesh = <["x"={devices}]>
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {{
    {before}
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
      out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%p: tensor<{rows}x8xf32>) {{
      %1 = stablehlo.sine %p : tensor<{rows}x8xf32>
      %2 = "stablehlo.all_reduce"(%1) ({{
        ^bb0(%u: tensor<f32>, %v: tensor<f32>):
          %s = stablehlo.add %u, %v : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }}) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}
        : (tensor<{rows}x8xf32>) -> tensor<{rows}x8xf32>
      sdy.return %2 : tensor<{rows}x8xf32>
    }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32> }} }}"""


def test_the_program_of_each_device_is_that_of_one():
    found = graph_of(parsed(SHARED.format(devices=2, rows=4, before="")))
    assert [one.shape for one in (*found.inputs, *found.outputs)] == [(4, 8), (4, 8)]
    assert [node.name for node in found.graph.nodes] == ["sine", "all_reduce"]


def test_one_device_has_whole_tensors():
    before = "%b = stablehlo.negate %a : tensor<8x8xf32>"
    found = graph_of(parsed(SHARED.format(devices=1, rows=8, before=before)))
    assert [node.name for node in found.graph.nodes] == ["sine", "all_reduce"]


def test_shares_among_whole_tensors_are_refused():
    before = "%b = stablehlo.negate %a : tensor<8x8xf32>"
    with pytest.raises(
        NotModelled, match=r"^sdy\.manual_computation whose devices have tensor<4x8"
    ):
        graph_of(parsed(SHARED.format(devices=2, rows=4, before=before)))


CALL = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @CALLEE(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32> }
func.func private @declared(tensor<2xf32>) -> tensor<2xf32>"""


@pytest.mark.parametrize(
    ("callee", "match"),
    [("declared", "the function declared is declared, and has no body"), ("main", "call themselv")],
)
def test_functions_without_an_end_are_refused(callee, match):
    with pytest.raises(NotModelled, match=match):
        graph_of(parsed(CALL.replace("CALLEE", callee)))


def test_a_main_without_a_body_is_refused():
    with pytest.raises(NotModelled, match="the function main is declared"):
        graph_of(parsed("func.func private @main(tensor<2xf32>) -> tensor<2xf32>"))
