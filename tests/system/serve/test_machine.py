import pytest

from trnsim.errors import BadInput
from trnsim.system.serve.machine import machine


@pytest.mark.parametrize(
    ("name", "lnc", "ranks", "gib", "rank"),
    [
        ("trn1", None, 32, 16, "NeuronCore"),
        ("trn2", None, 64, 24, "logical NeuronCore of 2"),
        ("trn2", 1, 128, 12, "NeuronCore"),
        ("inf2.xlarge", None, 2, 16, "NeuronCore"),
        ("inf1.xlarge", None, 4, 2, "NeuronCore"),
        ("p5.48xlarge", None, 8, 80, "GPU"),
    ],
)
def test_ranks_are_logical_cores_or_gpus(name, lnc, ranks, gib, rank):
    one = machine(name, lnc)
    assert one.ranks == ranks
    assert one.memory_bytes == pytest.approx(gib * 2**30, rel=0.08)
    assert one.rank_name == rank
    assert one.is_neuron is (rank != "GPU")


def test_chips_with_published_decodes_are_known():
    assert machine("trn1").is_fitted
    assert not machine("trn2").is_fitted
    assert not machine("p5en").is_fitted


@pytest.mark.parametrize(
    ("name", "lnc", "message"),
    [
        ("trn2", 3, r"^lnc is 3 on trn2; legal: 1 or 2\n  fix: --lnc 2\n  source: aws-neuron-sdk"),
        ("trn1", 2, r"^lnc is 2 on trn1; legal: 1\n"),
        ("p5en", 1, r"^lnc is 1 on p5en; GPUs have no logical NeuronCores\n  fix: leave out --lnc"),
        ("foo", None, r"^target 'foo' is not known; legal: trn1, trn2, trn3, "),
    ],
)
def test_cores_that_cannot_be_joined_are_refused(name, lnc, message):
    with pytest.raises(BadInput, match=message):
        machine(name, lnc)
