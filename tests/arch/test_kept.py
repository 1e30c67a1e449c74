"""Results kept by core: found again on the same core, apart from those of others, and bounded."""

from dataclasses import replace

from trnsim.arch import kept
from trnsim.arch.kept import KeptByCore


def test_results_are_found_again_on_the_same_core_alone(core_v2, core_v3):
    results = KeptByCore[str, int](4)
    results.on(core_v3)["a"] = 1
    assert results.on(core_v3) == {"a": 1}
    assert results.on(core_v2) == {}
    assert results.on(replace(core_v3)) == {}


def test_a_core_is_held_so_that_no_other_takes_its_place(core_v3):
    results, identities = KeptByCore[str, int](4), set()
    for _ in range(8):
        twin = replace(core_v3)
        results.on(twin)["a"] = 1
        identities.add(id(twin))
    assert len(identities) == 8


def test_both_numbers_are_bounded(core_v3, monkeypatch):
    monkeypatch.setattr(kept, "MOST_CORES", 2)
    results = KeptByCore[int, int](3)
    for number in range(10):
        results.on(core_v3)[number] = number
        assert len(results.on(core_v3)) <= 4
    for _ in range(3):
        results.on(replace(core_v3))
    assert results.on(core_v3) == {}
