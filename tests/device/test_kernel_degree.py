"""Kernels in graphs: both have one number of cores since NKI 0.7."""

import nki
import nki.language as nl
import pytest

from trnsim.behaviours.chosen import pinned
from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.device import kernel_degree
from trnsim.device.kernel_degree import check_degree
from trnsim.errors import BadInput


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out, nl.load(x))
    return out


@pytest.fixture
def graph_of(monkeypatch):
    """Sets the number of cores for which graphs are compiled."""

    def use(cores):
        monkeypatch.setattr(kernel_degree, "compiled_cores", lambda *_: cores)

    return use


def test_a_kernel_has_the_cores_of_its_graph(graph_of):
    graph_of(2)
    check_degree(copied[2])
    with pytest.raises(CompilerRefusal) as caught:
        check_degree(copied)
    assert caught.value.reason == (
        "NCC_EVRF066: the kernel copied has LNC=1, and neuronx-cc compiles its graph on trn2 with "
        "LNC=2; the kernels of a graph have the graph's number of cores"
    )
    assert caught.value.fix == (
        "NEURON_LOGICAL_NC_CONFIG=1 or 2, which kernels and graphs follow; or launch it as "
        "copied[2](...)"
    )
    assert caught.value.source == "aws-neuron-sdk compiler/error-codes/EVRF066.rst"
    assert caught.value.line.file == __file__


def test_a_grid_is_changed_in_the_grid(graph_of):
    graph_of(1)
    check_degree(copied)
    check_degree(copied[1])
    with pytest.raises(CompilerRefusal, match=r"copied has LNC=2, .* with LNC=1") as caught:
        check_degree(copied[2])
    assert caught.value.fix.endswith("or launch it as copied[1](...)")


@pytest.mark.parametrize("version", ["0.2", "0.6"])
def test_older_versions_check_nothing(graph_of, version):
    graph_of(2)
    with pinned(version, "--nki"):
        check_degree(copied)


def test_flags_that_contradict_the_variable_are_refused(monkeypatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    with pytest.raises(BadInput, match="legal: the same number"):
        check_degree(copied[2])


def test_the_compilers_flag_is_its_degree(monkeypatch):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    monkeypatch.setenv("NEURON_CC_FLAGS", "--lnc=1")
    check_degree(copied)
    with pytest.raises(CompilerRefusal, match="neuronx-cc compiles its graph on trn2 with LNC=1"):
        check_degree(copied[2])
