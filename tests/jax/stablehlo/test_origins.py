"""Scopes, primitives and lines of JAX's locations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BLOCK, module_of, parsed
from jax import lax

from trnsim.errors import NotModelled, SourceLine
from trnsim.graph import Origin
from trnsim.jax.stablehlo import graph_of
from trnsim.jax.stablehlo.origins import Path, Trip

HERE = __file__
TEXT = """func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = stablehlo.sine %a : tensor<4xf32> loc({loc})
  return %0 : tensor<4xf32> }}"""


def origins(function, *given):
    return [node.origin for node in graph_of(module_of(function, *given)).graph.nodes]


def of(loc):
    (node,) = graph_of(parsed(TEXT.format(loc=loc))).graph.nodes
    return node.origin


def test_a_node_has_the_scope_the_primitive_and_the_line():
    def program(x):
        with jax.named_scope("outer"), jax.named_scope("inner"):
            return jnp.sin(x)

    (origin,) = origins(program, BLOCK)
    line = program.__code__.co_firstlineno + 2
    assert origin == Origin("outer.inner", "jax::sin", SourceLine(HERE, line))


def test_gradients_have_the_scope_of_the_forward_pass():
    def program(x):
        with jax.named_scope("block"):
            return jnp.tanh(x * x).sum()

    found = origins(jax.grad(program), BLOCK)
    assert {one.module for one in found if one.operator in ("jax::mul", "jax::tanh")} == {"block"}


def test_trips_of_a_loop_are_numbered_and_their_gradients_alike():
    def program(x, rows):
        def layer(x, row):
            with jax.named_scope("mlp"):
                return jnp.tanh(x * row), None

        return lax.scan(layer, x, rows)[0].sum()

    found = origins(jax.grad(program), BLOCK[0], BLOCK)
    forward = [one.module for one in found if one.operator == "jax::tanh"]
    assert forward == [f"{trip}.mlp" for trip in range(6)]
    last = max(place for place, one in enumerate(found) if one.operator == "jax::tanh")
    backward = dict.fromkeys(one.module for one in found[last + 1 :] if one.operator == "jax::mul")
    assert [*backward][-6:] == [f"{trip}.mlp" for trip in reversed(range(6))]


def test_functions_that_are_called_lie_within_the_scope_of_the_call():
    def program(x):
        with jax.named_scope("first"):
            x = jax.jit(lambda x: jnp.sin(x) + 1)(x)
        with jax.named_scope("second"):
            return jax.jit(lambda x: jnp.cos(x) + 1)(x)

    assert [one.module for one in origins(program, BLOCK)] == [*["first"] * 2, *["second"] * 2]


@pytest.mark.parametrize(
    ("loc", "module", "operator", "line"),
    [
        ('"jit(f)/sin"("a.py":3:1)', "", "jax::sin", SourceLine("a.py", 3)),
        ('"jit(f)/jvp(layers)/mlp/sin"', "layers.mlp", "jax::sin", None),
        ('"jit(f)/transpose(jvp(layers))/jit(g)/sin"', "layers", "jax::sin", None),
        ('"jit(f)/vmap(a/b)/ab,bc->ac/sin"', "a/b", "jax::sin", None),
        ('"sin"(callsite("g"("a.py":3:1) at "f"("b.py":9:1)))', "", "jax::sin", ("a.py", 3)),
        ("unknown", "", "jax::sine", None),
        ('"a.py":7:2', "", "jax::sine", SourceLine("a.py", 7)),
    ],
)
def test_a_location_in_each_form(loc, module, operator, line):
    assert of(loc) == Origin(module, operator, line and SourceLine(*line))


def test_frames_that_are_no_program_are_passed_over():
    assert of('callsite("<string>":1:1 at "b.py":9:1)').line == SourceLine("b.py", 9)


def test_a_path_counts_the_trips_of_its_own_function():
    path = Path(("a",)).in_trip(2, 5)
    assert (path.names, path.trips) == (("a",), (Trip(2, 5),))


def test_an_error_has_the_line():
    def program(x):
        return jnp.fft.fft(x)

    with pytest.raises(
        NotModelled, match=r"^stablehlo\.convert: a tensor of complex<f32>; a"
    ) as caught:
        origins(program, np.ones(4, np.float32))
    line = program.__code__.co_firstlineno + 1
    assert str(caught.value).endswith(f"at {HERE}:{line}")
