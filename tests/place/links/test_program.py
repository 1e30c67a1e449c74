"""Exchanges of one rank's program, of which other ranks of its instance run copies."""

import pytest

from trnsim.errors import BadInput
from trnsim.fabric.collective_time import collective_time
from trnsim.fabric.exchange import with_replicas
from trnsim.fabric.fabric import fabric
from trnsim.place.links import Spread, exchange
from trnsim.place.links.program import program_time, usual_instance


@pytest.fixture(autouse=True)
def _no_instance(monkeypatch):
    monkeypatch.delenv("TRNSIM_INSTANCE", raising=False)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("ranks", [2, 8, 16, 128])
@pytest.mark.parametrize(("target", "lnc"), [("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2)])
def test_a_program_takes_what_a_plan_of_its_instance_takes(target, lnc, ranks, kind):
    planned = exchange(usual_instance(f"trainium{target[-1]}"), lnc, kind, 1 << 20, Spread(ranks))
    found = program_time(kind, 1 << 20, [range(ranks)], target, lnc)
    # Beyond an instance a plan is a closed form, within the bound of tests/place/links.
    assert found.time_s == pytest.approx(planned.time_s, rel=1e-9 if ranks < 32 else 0.015)


def test_copies_of_a_program_fill_its_instance():
    node = fabric("trn2.48xlarge", lnc=2)
    copies = with_replicas(node, ((0, 1), (2, 3)))
    assert copies[:3] == ((0, 1), (2, 3), (4, 5))
    assert sorted(rank for group in copies for rank in group) == list(range(64))
    assert len(with_replicas(node, (tuple(range(48)),))) == 1
    two = fabric("trn2.48xlarge", nodes=2, lnc=2)
    assert with_replicas(two, (tuple(range(128)),)) == (tuple(range(128)),)


def test_copies_share_what_they_pass_through():
    alone = collective_time("all_reduce", 1 << 26, 2, "trn2", lnc=2, instance="trn2.48xlarge")
    assert program_time("all_reduce", 1 << 26, [range(2)], "trn2", 2).time_s > 1.1 * alone.time_s


def test_an_instance_that_is_named_has_the_ranks(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.3xlarge")
    assert "trn2.3xlarge" in program_time("all_reduce", 8, [range(2)], "trn2", 2).placed_on
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.2xlarge")
    with pytest.raises(BadInput, match=r"trn1\.2xlarge has trainium1; this runs on trainium2"):
        program_time("all_reduce", 8, [range(2)], "trn2", 2)
