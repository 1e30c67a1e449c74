"""What is not imported is refused by its name, with the reason, what to do, and the source."""

import pytest
from agreeing import parsed

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of
from trnsim.jax.stablehlo.refused import REFUSED, refuse

F, C = "tensor<4xf32>", "tensor<4xcomplex<f32>>"
PROGRAMS = {
    "stablehlo.infeed": (
        '%t = stablehlo.create_token : !stablehlo.token\n%0, %1 = "stablehlo.infeed"(%t) '
        f'{{infeed_config = ""}} : (!stablehlo.token) -> ({F}, !stablehlo.token)'
    ),
    "stablehlo.complex": f"%0 = stablehlo.complex %a, %a : {C}",
    "stablehlo.dynamic_iota": (
        "%s = stablehlo.constant dense<4> : tensor<1xi32>\n"
        f"%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> {F}"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_refused_with_the_line(name):
    text = f"""func.func public @main(%a: {F}) -> {F} {{
      {PROGRAMS[name]} loc("model.py":12:3)
      return %a : {F} }}"""
    with pytest.raises(NotModelled) as refused:
        graph_of(parsed(text))
    made = REFUSED[name]
    assert refused.value.reason == f"{name}: {made.why}"
    assert refused.value.fix == made.fix
    assert str(refused.value.line) == "model.py:12"


@pytest.mark.parametrize("name", REFUSED)
def test_each_has_a_reason_a_remedy_and_a_source(name):
    with pytest.raises(NotModelled) as refused:
        refuse(name)
    assert refused.value.reason.startswith(f"{name}: ")
    assert refused.value.fix
    assert "{}" not in refused.value.source
    assert refused.value.source


def test_an_operation_of_another_dialect_is_refused_by_its_name():
    text = "func.func public @main(%a: f32) { %0 = arith.addf %a, %a : f32\n return }"
    with pytest.raises(NotModelled, match=r"^argument 0 of main: a value of type f32"):
        graph_of(parsed(text))
    with pytest.raises(NotModelled, match=r"^arith\.addf is no operation that is imported"):
        refuse("arith.addf")
