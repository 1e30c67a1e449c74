"""Names of platforms: chips, families and instance types in any case."""

import pytest

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.place.machine import machine, platforms
from trnsim.place.platform import listed_names, platform, platform_names


def test_names_stand_between_commas_or_are_given_again():
    assert listed_names(["trn1, trn2", "p5en", "trn1", ","]) == ["trn1", "trn2", "p5en"]
    assert listed_names(None) == listed_names([]) == []
    with pytest.raises(BadInput, match="--on names no platform"):
        listed_names([","])


@pytest.mark.parametrize(
    ("name", "spelling", "instance", "count"),
    [
        ("trn2", "trn2", "trn2.48xlarge", 3),
        ("Trainium2", "trn2", "trn2.48xlarge", 5),
        ("gen3", "trn2", "trn2.48xlarge", 5),
        ("TRN3", "trn3", "Trn3 Gen2 UltraServer", 2),
        ("trn1n", "trn1n", "trn1n.32xlarge", 1),
        ("P5EN", "p5en", "p5en.48xlarge", 1),
        ("g5", "g5", "g5.48xlarge", 4),
        ("h100", "h100", "p5.48xlarge", 2),
        ("p6", "p6", "p6-b300.48xlarge", 2),
        ("P6-B200", "p6-b200", "p6-b200.48xlarge", 1),
        ("p6e-gb200", "p6e-gb200", "p6e-gb200.36xlarge", 1),
        (" TRN2.48XLARGE", "trn2.48xlarge", "trn2.48xlarge", 1),
        ("trn3 gen1 ultraserver", "Trn3 Gen1 UltraServer", "Trn3 Gen1 UltraServer", 1),
    ],
)
def test_a_platform_is_named_by_chip_family_or_type_in_any_case(name, spelling, instance, count):
    named = platform(name)
    assert (named.name, named.instance, len(named.instances)) == (spelling, instance, count)
    assert named.instance in named.instances
    made = machine(name)
    assert (made.name, made.instance.name) == (spelling, instance)


def test_every_name_is_known_and_short_ones_mean_their_usual_instance():
    sold = {instance.accelerator for instance in catalogue().instances.values()}
    gpus = catalogue().gpus
    names = [name for name in platform_names() if name not in gpus or gpus[name].name in sold]
    assert all(platform(name).instances for name in names)
    for name, instance in platforms().items():
        assert platform(name).instance == instance
    for target in TARGETS.values():
        assert platform(target.name).chip == target.chip


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("trn22", "perhaps trn2 or "),
        ("p6-b20", "perhaps p6-b200 or "),
        ("zzz", "trnsim instances lists all types"),
    ],
)
def test_an_unknown_name_is_refused_with_those_like_it(name, fix):
    with pytest.raises(BadInput, match=f"'{name}' is no chip, family or instance type") as caught:
        platform(name)
    assert caught.value.fix.startswith(fix)


def test_a_chip_that_aws_does_not_rent_is_refused():
    with pytest.raises(BadInput, match="AWS rents no instance with tpu-v5e; legal: trn1, "):
        platform("tpu-v5e")
