"""Places: enough instances, prices of an equal kind, and what cannot be bought."""

import pytest
from place_cases import places
from workload_cases import workload

from trnsim.decide.candidates import candidate_names
from trnsim.decide.inventory.workload import CurrentDeployment
from trnsim.errors import BadInput
from trnsim.place.platform import family
from trnsim.system.serve.demand import Slo

P5, TRN1, TRN2, INF2 = "p5.48xlarge", "trn1.32xlarge", "trn2.48xlarge", "inf2.xlarge"


def bought(kind, count=1, instance=P5):
    return CurrentDeployment(instance, count, kind, 1e5, None)


def test_all_of_aws_chips_and_the_gpus_named_are_candidates():
    found = {family(name) for name in candidate_names()}
    assert {"inf1", "inf2", "trn1", "trn1n", "trn2", "trn2u", "trn3"} <= found
    assert {"p4d", "p4de", "p5", "p5e", "p5en", "p6", "g5", "g6", "g6e"} <= found
    assert not found & {"g4dn", "p6e", ""}


def test_candidates_are_named_by_type_target_or_family():
    assert candidate_names((TRN1,)) == (TRN1,)
    assert candidate_names(("inf2",))[0] == INF2
    assert "trn2.3xlarge" in candidate_names(("trn2",))


def test_an_unknown_candidate_is_refused_with_families():
    with pytest.raises(BadInput, match="'tpu' is no chip, family or instance type; legal: trn1"):
        candidate_names(("tpu",))


def test_a_month_that_one_instance_cannot_hold_takes_more():
    """400 billion tokens at 17,600 a second are 263 days of one instance."""
    given = workload(volume=4e11, current=bought("on_demand"))
    there = places({P5: 8e4, TRN1: 17_600.0})
    found = there.destination(given, TRN1, there.origin(given))
    assert found.hours / 24 == pytest.approx(263, rel=0.01)
    assert found.instances == 9


def test_a_deadline_takes_more_instances():
    given = workload(current=bought("on_demand"), deadline_hours=100.0)
    there = places({P5: 8e4, TRN1: 17_600.0})
    assert there.destination(given, TRN1, there.origin(given)).instances == 64


def test_too_many_instances_are_refused():
    given = workload(current=bought("on_demand"))
    there = places({P5: 8e4, TRN1: 1.0})
    assert (
        "instances are needed; legal: up to 10,000"
        in there.destination(given, TRN1, there.origin(given)).refused
    )


def test_too_many_instances_of_a_service_are_refused_except_where_it_runs():
    given = workload("serve", volume=1e15, current=bought("on_demand"))
    there = places({P5: 2e4, TRN1: 1e4})
    here = there.origin(given)
    assert here.instances > 10_000
    assert (
        "instances are needed; legal: up to 10,000" in there.destination(given, TRN1, here).refused
    )


def test_a_price_of_another_region_is_said():
    here = CurrentDeployment(P5, 1, "on_demand", 1e5, "eu-central-1")
    there = places({P5: 8e4, TRN1: 2e4})
    given = workload(current=here)
    found = there.destination(given, TRN1, there.origin(given))
    assert found.notes == ("no price in eu-central-1 is known; that of us-east-1 stands in",)
    assert not there.origin(workload(current=bought("on_demand"))).notes


def test_a_service_keeps_whole_instances_on_all_month():
    given = workload("serve", volume=1e11, current=bought("on_demand"), peak_ratio=2.0)
    there = places({P5: 8e4, TRN1: 2e4})
    found = there.destination(given, TRN1, there.origin(given))
    assert found.load == pytest.approx(1e11 / 2e4 / 3600 / 730 * 2)
    assert found.instances == 4
    assert found.hours == 4 * 730


def test_hours_of_gpus_are_the_units_that_they_do():
    given = workload(volume=8 * 73.0, volume_unit="gpu_hours", current=bought("on_demand"))
    there = places({P5: 8e4, TRN1: 2e4})
    here = there.origin(given)
    assert here.hours == pytest.approx(73)
    assert there.destination(given, TRN1, here).hours == pytest.approx(4 * 73)


@pytest.mark.parametrize(
    ("hours", "instances"), [(672, 1), (730, 1), (744, 1), (745, 2), (671, 1), (7440, 10), (1, 1)]
)
def test_a_calendar_month_of_a_service_is_one_of_its_instances(hours, instances):
    given = workload(
        "serve", volume=8.0 * hours, volume_unit="gpu_hours", current=bought("on_demand")
    )
    there = places({P5: 8e4, TRN1: 8e4})
    here = there.origin(given)
    assert here.instances == instances
    assert there.destination(given, TRN1, here).instances == instances


def test_hours_of_training_are_taken_as_they_are():
    given = workload(volume=8 * 744.0, volume_unit="gpu_hours", current=bought("on_demand"))
    assert places({P5: 8e4}).origin(given).hours == pytest.approx(744)


def test_a_commitment_is_bought_for_work_of_every_month():
    given = workload(current=bought("ri_3y", instance="p4d.24xlarge"))
    there = places({"p4d.24xlarge": 3e4, P5: 8e4})
    here = there.origin(given)
    assert here.price.kind == "ri_3y"
    assert there.destination(given, P5, here).price.kind == "ri_3y"


def test_without_a_speed_here_hours_mean_nothing_there():
    given = workload(volume=8 * 73.0, volume_unit="gpu_hours", current=bought("on_demand"))
    there = places({TRN1: 2e4})
    found = there.destination(given, TRN1, there.origin(given))
    assert found.refused == "its volume is in hours of an instance that is refused"


def test_no_kind_stands_in_for_another():
    given = workload("serve", current=bought("on_demand"))
    there = places({P5: 8e4, TRN2: 8e4})
    found = there.destination(given, TRN2, there.origin(given))
    assert found.price is None
    assert found.no_price == "no public price (on_demand)"
    assert found.reference.kind == "capacity_block"


def test_a_block_serves_no_service():
    given = workload("serve", current=bought("capacity_block"))
    there = places({P5: 8e4, TRN2: 8e4})
    found = there.destination(given, TRN2, there.origin(given))
    assert found.no_price == ("capacity_block is sold for 182 days at most, not for all year round")


def test_a_block_holds_a_months_training():
    given = workload(current=bought("capacity_block"))
    there = places({P5: 8e4, TRN2: 8e4})
    assert there.destination(given, TRN2, there.origin(given)).price.kind == "capacity_block"


def test_mixed_prices_take_another_kind_that_can_be_bought():
    given = workload(current=bought("on_demand"))
    there = places({P5: 8e4, TRN2: 8e4}, is_mixed=True)
    assert there.destination(given, TRN2, there.origin(given)).price.kind == "capacity_block"


def test_a_kind_that_is_asked_for_is_that_of_both_sides():
    given = workload(current=bought("on_demand"))
    there = places({P5: 8e4, TRN1: 2e4}, kind="capacity_block")
    here = there.origin(given)
    assert {here.price.kind, there.destination(given, TRN1, here).price.kind} == {"capacity_block"}


def test_one_does_not_move_to_a_chip_without_software():
    given = workload("infer", current=bought("on_demand", instance="g5.xlarge"))
    there = places({"g5.xlarge": 10.0, "inf1.xlarge": 10.0, INF2: 20.0})
    here = there.origin(given)
    old = there.destination(given, "inf1.xlarge", here)
    assert not old.is_open
    assert old.notes == ("no place to move to: inferentia1 gets no new software",)
    assert there.destination(given, INF2, here).is_open


def test_training_does_not_move_to_a_chip_for_inference():
    given = workload(current=bought("on_demand"))
    there = places({P5: 8e4, "inf2.48xlarge": 8e4})
    found = there.destination(given, "inf2.48xlarge", there.origin(given))
    assert not found.is_open
    assert found.notes == ("no place to move to: inferentia2 is not for kind train",)


def test_single_passes_with_a_latency_are_a_service():
    made = {"current": bought("on_demand", instance="g5.xlarge")}
    there = places({"g5.xlarge": 1e5})
    assert there.origin(workload("infer", slo=Slo(latency_s=1.0), **made)).is_always_on
    assert not there.origin(workload("infer", **made)).is_always_on


def test_a_token_a_month_takes_a_whole_group():
    given = workload(volume=1.0, current=bought("on_demand"))
    there = places({P5: 8e4, TRN1: 17_600.0}, group=4)
    assert there.destination(given, TRN1, there.origin(given)).instances == 4


def test_training_pays_for_its_hours_whatever_its_latency():
    given = workload(current=bought("on_demand"), slo=Slo(latency_s=1.0))
    there = places({P5: 8e4, TRN1: 17_600.0})
    assert not there.origin(given).is_always_on
