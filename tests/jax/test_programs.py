import jax
import jax.numpy as jnp
import pytest

from trnsim.device.graph_file import graph_bytes
from trnsim.errors import BadInput
from trnsim.jax import programs
from trnsim.jax.programs import chip_of, compile_program, is_program_of_xla, program_in, subject_of


@pytest.fixture(scope="module")
def module():
    lowered = jax.jit(lambda a, b: jnp.tanh(a @ b)).lower(jnp.ones((8, 16)), jnp.ones((16, 4)))
    return lowered.as_text().encode()


def compiled(content, flags="-O1"):
    return compile_program(content, "m", flags, "trn1", flags_origin="test", title="m")


def test_a_program_and_its_graph_have_one_answer(module):
    report, stored = compiled(module)
    assert (stored.graph_format, stored.graph, stored.target) == ("stablehlo", module, "trn1")
    assert stored.flags == ("--target=trn1", "--logical-nc-config=1", "--optlevel=1")
    again, stored_again = compiled(stored.serialized())
    assert again.as_dict() == report.as_dict() == stored.report
    assert stored_again == stored
    of_graph, of_file = compiled(graph_bytes(report.subject))
    assert of_graph.as_dict() == report.as_dict()
    assert of_file.graph_format == "trnsim-graph"


def test_contents_are_told_from_their_bytes(module):
    assert is_program_of_xla(module)
    assert not is_program_of_xla(b"import torch\n")
    assert program_in(b"HloModule m\n", "x")[1] == "hlo"
    assert subject_of(module, "m", "title").title == "title"


def test_a_traced_program_is_named():
    with pytest.raises(BadInput, match=r"graph\.neff is a program that torch_neuronx.trace stored"):
        program_in(b"trnsim traced program\nversion 1\n", "graph.neff")


def test_a_family_of_instances_names_its_chip():
    assert [chip_of(name) for name in ("trn1n", "trn1", "inf2")] == ["trn1", "trn1", "inf2"]


def test_without_jax_it_is_said(module, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(programs, "import_module", missing)
    with pytest.raises(BadInput, match=r"^m: a graph of HLO or StableHLO needs JAX"):
        program_in(module, "m")
