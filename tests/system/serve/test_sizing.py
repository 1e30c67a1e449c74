from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serve_cases import deployed

from trnsim.errors import BadInput
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.sizing import (
    Sizing,
    Spare,
    check_units,
    is_set,
    repeated_deployment,
    unit_of,
    units_for,
    units_of_spare,
)


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e3), st.sampled_from(Spare), st.integers(1, 64))
def test_the_units_keep_the_rate_with_the_spare_lost_and_one_less_does_not(
    rate, unit, spare, replicas
):
    spare_units = units_of_spare(spare, replicas)
    count = units_for(rate, unit, spare_units)
    sizing = Sizing(count, unit, spare, spare_units, rate)
    assert sizing.promised_per_s >= rate * (1 - 1e-6)
    assert sizing.headroom >= 1 - 1e-6
    assert count == 1 or (count - 1 - spare_units) * unit < rate * (1 + 1e-6)


def test_a_spare_instance_is_a_unit_and_a_spare_replica_a_part_of_one():
    assert units_for(10, 10, units_of_spare(Spare.NONE, 4)) == 1
    assert units_for(10, 10, units_of_spare(Spare.REPLICA, 4)) == 2
    assert units_for(7.5, 10, units_of_spare(Spare.REPLICA, 4)) == 1
    assert units_for(7.5, 10, units_of_spare(Spare.INSTANCE, 4)) == 2
    assert Sizing(3, 10.0, Spare.INSTANCE, 1.0, None).headroom is None


def test_a_unit_is_the_fewest_instances_that_hold_a_replica():
    one = deployed()
    assert unit_of(one) is one
    three = deployed(instances=3)
    assert (three.replicas, three.instances) == (12, 3)
    unit = unit_of(three)
    assert (unit.replicas, unit.instances) == (4, 1)
    spread = unit_of(deployed(tensor=32, pipeline=2, instances=4))
    assert (spread.replicas, spread.instances) == (1, 2)
    assert unit_of(deployed(replicas=2)).replicas == 2


def test_units_are_repeated_with_their_replicas_for_prompts():
    apart = deployed(prefill_replicas=1)
    three = repeated_deployment(apart, 3)
    assert (three.replicas, three.instances, three.options.prefill_replicas) == (12, 3, 3)
    assert repeated_deployment(apart, 1) is apart


def test_more_instances_than_any_region_has_are_refused():
    unit = deployed()
    check_units(10_000, unit)
    with pytest.raises(BadInput, match=r"^10,001 instances of .* are needed; legal: up to 10,000"):
        check_units(10_001, unit)


@pytest.mark.parametrize(
    ("options", "expected"), [({}, False), ({"instances": 2}, True), ({"replicas": 2}, True)]
)
def test_instances_and_replicas_set_the_size(options, expected):
    assert is_set(replace(ServerOptions(), **options)) is expected
