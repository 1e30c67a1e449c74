"""Targets: the names under which users ask for a chip."""

import pytest

from trnsim import arch
from trnsim.arch import TARGETS, target, target_of_chip
from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput


@pytest.mark.parametrize(
    ("name", "generation"), [("trn1", 2), ("inf2", 2), ("trn2", 3), ("trn3", 4)]
)
def test_a_platform_name_gives_its_generation(name, generation):
    found = target(name)
    assert (found.name, found.core.generation) == (name, generation)


@pytest.mark.parametrize(("name", "same"), [("gen2", "trn1"), ("gen3", "trn2"), ("gen4", "trn3")])
def test_a_generation_name_gives_its_trainium(name, same):
    assert target(name) is TARGETS[same]


@pytest.mark.parametrize("name", ["trn0", "TRN2", "", "h100", 3, None, ["trn2"], {}])
def test_another_name_is_refused_with_the_legal_ones(name):
    with pytest.raises(
        BadInput, match=r"legal: trn1, inf2, trn2, trn3, gen2, gen3, gen4"
    ) as caught:
        target(name)
    assert repr(name) in str(caught.value)
    assert caught.value.source
    assert caught.value.fix


def test_only_what_has_published_measurements_is_called_validated():
    assert [name for name, found in TARGETS.items() if not found.validated] == ["trn3"]


def test_every_target_names_a_chip_of_the_catalogue():
    assert {found.chip for found in TARGETS.values()} <= set(catalogue().chips)


def test_a_chip_of_the_catalogue_has_its_target_if_it_is_emulated():
    assert [target_of_chip(each.chip) for each in TARGETS.values()] == list(TARGETS.values())
    assert target_of_chip("inferentia1") is target_of_chip("h100") is None


def test_the_room_exports_its_names():
    assert all(hasattr(arch, name) for name in arch.__all__)
