import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.errors import BadInput, OutOfMemory
from trnsim.place.machine import machine
from trnsim.site import take_used
from trnsim.system import search
from trnsim.system.train import best as best_module
from trnsim.system.train.best import Effort, _Search, best, best_on, front, layout_step_s
from trnsim.system.train.candidates import LayoutRequest, fitting_layouts, layouts
from trnsim.system.train.layout import Layout
from trnsim.system.train.step import TrainingSteps

sys.path.append(str(Path(__file__).parents[2] / "site"))
from site_cases import write_site

QUICK = Effort(budget=8, processes=1)


SMALL = {"hidden_size": 1024, "num_hidden_layers": 4, "intermediate_size": 4096}
EXPERTS = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "on", "instances", "context"),
    [(SMALL, "trn1", 1, None), (SMALL | EXPERTS, "p5en", 4, 1)],
)
def test_the_best_is_the_shortest_of_all_that_fit(sizes, on, instances, context, make_llama):
    small = make_llama(**sizes)
    asked = LayoutRequest(64, 2048, virtual=1, context=context)
    where = machine(on, instances)
    steps = TrainingSteps(small, where)
    times = []
    for one in fitting_layouts(small, where, layouts(small, where, asked)):
        try:
            times.append(steps.step(one).step_s.p50)
        except OutOfMemory:
            continue
    found = best(small, on, instances, asked, Effort(budget=30, processes=1))
    assert found.step.step_s.p50 == pytest.approx(min(times), rel=0.01)
    assert found.timed_layouts == 30 < found.fitting_layouts <= found.legal_layouts


def test_what_was_asked_is_not_searched(llama):
    asked = LayoutRequest(
        256,
        4096,
        *(8, 4, 1, 8, 1, 1, 1, "full"),
        is_sequence=True,
        micro_batch=1,
    )
    found = best(llama, "trn2", 4, asked, QUICK)
    assert found.legal_layouts == found.timed_layouts == 1
    assert str(found.step.layout) == "TP=8 PP=4 DP=8 ZeRO-1 recompute=full SP micro batch 1"


@pytest.mark.parametrize("search_of", [best, best_on])
def test_a_layout_that_was_found_is_found_anew_with_other_corrections(
    search_of, monkeypatch, tmp_path, llama
):
    asked = LayoutRequest(
        256, 4096, *(8, 4, 1, 8, 1, 1, 1, "full"), is_sequence=True, micro_batch=1
    )
    site = write_site(tmp_path / "site.json", chip="trainium2", families=("train",))
    times_s = []
    for named in ("", str(site), ""):
        monkeypatch.setenv("TRNSIM_SITE", named)
        times_s.append(search_of(llama, "trn2", 4, asked, QUICK).step.step_s.p50)
    assert times_s[0] == times_s[2] < times_s[1]


@pytest.mark.parametrize("search_of", [best, best_on])
def test_a_layout_from_memory_notes_the_corrections_in_its_times(
    search_of, monkeypatch, tmp_path, llama
):
    asked = LayoutRequest(
        256, 4096, *(8, 4, 1, 8, 1, 1, 1, "full"), is_sequence=True, micro_batch=1
    )
    site = write_site(tmp_path / "site.json", chip="trainium2", families=("train",))
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    take_used()
    noted = []
    for effort in (QUICK, QUICK, replace(QUICK, budget=QUICK.budget + 1)):
        search_of(llama, "trn2", 4, asked, effort)
        noted.append(take_used())
    assert noted[0]
    assert noted == [noted[0]] * 3


@pytest.mark.slow
def test_the_smallest_number_that_fits_is_taken(make_llama):
    large = make_llama(hidden_size=8192, num_hidden_layers=80, intermediate_size=28672)
    asked = LayoutRequest(64, 4096)
    found = best(large, "trn1", None, asked, QUICK)
    assert found.machine.count > 1
    with pytest.raises(OutOfMemory, match="needs"):
        best(large, "trn1", found.machine.count // 2, asked, QUICK)


def test_a_model_too_large_for_an_instance_without_efa_says_so(make_llama):
    large = make_llama(hidden_size=8192, num_hidden_layers=80, intermediate_size=28672)
    said = r"none of \d+ layouts fits 1 x trn1\.2xlarge: with .* a NeuronCore of .* has 16\.0 GiB"
    with pytest.raises(OutOfMemory, match=said) as caught:
        best(large, "trn1.2xlarge", None, LayoutRequest(64, 4096), QUICK)
    assert caught.value.fix.startswith("name a type with more memory, or with EFA")


def test_what_would_have_room_follows_from_what_was_asked(make_llama):
    large = make_llama(hidden_size=8192, num_hidden_layers=80, intermediate_size=28672)
    for asked, fix in (
        ({}, "use more instances: without --inst"),
        ({"tensor": 8}, "use more --tp"),
    ):
        with pytest.raises(OutOfMemory, match="GiB a rank") as caught:
            best(large, "trn1", 1, LayoutRequest(64, 4096, **asked), QUICK)
        assert caught.value.fix.startswith(fix)


def test_where_more_instances_have_no_work_the_room_is_the_reason(make_llama):
    large = make_llama(hidden_size=8192, num_hidden_layers=80, intermediate_size=28672)
    asked = LayoutRequest(8, 4096, tensor=1, pipeline=1, context=1, zero=1)
    with pytest.raises(OutOfMemory, match=r"none of \d+ layouts fits .* GiB a rank") as caught:
        best(large, "p5.48xlarge", None, asked, QUICK)
    assert caught.value.fix.endswith("on more instances some ranks have no work")
    with pytest.raises(BadInput, match="no layout gives work to all 16 ranks"):
        best(large, "p5.48xlarge", 2, asked, QUICK)


def test_what_was_asked_and_cannot_be_is_named(llama):
    with pytest.raises(BadInput, match="--tp 128 is more than the 64 ranks"):
        best(llama, "trn2", 1, LayoutRequest(64, 4096, tensor=128), QUICK)
    with pytest.raises(
        BadInput, match=r"--tp 64: .* has 32 heads, so that some ranks would have n"
    ):
        best(llama, "trn2", 1, LayoutRequest(64, 4096, tensor=64), QUICK)
    with pytest.raises(BadInput, match="has 32 layers, which --pp x --vp = 5 does not divide"):
        best(llama, "trn2", 5, LayoutRequest(64, 4096, pipeline=5), QUICK)


def test_ranks_that_no_layout_gives_work_are_refused(llama):
    with pytest.raises(BadInput, match=r"no layout gives work to all 2,304 ranks of 4 x Trn3"):
        best(llama, "trn3", 4, LayoutRequest(512, 8192), QUICK)


def test_fewer_instances_are_looked_at_beside_those_that_were_asked_for(make_llama):
    asked = LayoutRequest(16, 4096, context=1, micro_batch=1, recompute="full")
    found = best(make_llama(**SMALL), "trn2", 4, asked, QUICK)
    assert [where.count for where, _ in found.machine_steps] == [4, 2, 1]
    assert all(step.layout.global_batch == 16 for _, step in found.machine_steps)


@pytest.mark.slow
def test_a_deadline_that_is_over_takes_the_most_promising_one(llama):
    asked = LayoutRequest(256, 4096, virtual=1, context=1)
    found = best(llama, "trn2", 4, asked, Effort(deadline_s=1e-9, processes=1))
    thorough = best(llama, "trn2", 4, asked, QUICK)
    assert thorough.step.step_s.p50 <= found.step.step_s.p50 < 1.2 * thorough.step.step_s.p50


def test_a_point_without_room_is_no_time():
    given = {"tensor": 1, "data": 32, "global_batch": 32, "zero": 0}
    from trnsim.workload.config import from_config  # noqa: PLC0415  a point has all it needs

    model = from_config(
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 14336,
            "vocab_size": 32000,
        },
        "llama.json",
    )
    assert layout_step_s(given, model, "trn1.32xlarge", 1, 1) == "memory"
    assert layout_step_s(given | {"tensor": 8, "data": 4}, model, "trn1.32xlarge", 1, 1) == "memory"
    assert layout_step_s(given | {"tensor": 32, "data": 1}, model, "trn1.32xlarge", 1, 1) > 0


def test_of_layouts_that_are_as_good_the_plainest_is_taken(llama, monkeypatch):
    """Of four whose steps were timed, the third is too slow and the fourth has no room."""
    made = [
        Layout(zero=3, data=8),
        Layout(zero=1, tensor=8),
        Layout(zero=0, data=8),
        Layout(zero=0, tensor=8),
    ]
    monkeypatch.setattr(search, "map", lambda *_, **__: [1.0, 1.004, 1.1, "memory"])
    looking = _Search(llama, "trn2", LayoutRequest(8, 4096), QUICK, None, 0.0)
    assert looking._fastest_layout(machine("trn2"), made) == made[1]


@pytest.mark.slow
def test_more_instances_are_looked_at_where_they_can_exchange(llama):
    asked, effort = LayoutRequest(256, 4096), Effort(budget=2, processes=1, doublings=2)
    found = best(llama, "trn2", None, asked, effort)
    assert [where.count for where, _ in found.machine_steps] == [1, 2, 4]
    times = [step.step_s.p50 for _, step in found.machine_steps]
    assert times == sorted(times, reverse=True)
    small = LayoutRequest(256, 4096, tensor=2, recompute="full", zero=3)
    with pytest.raises(OutOfMemory):
        best(llama, "trn1.2xlarge", None, small, effort)


def test_no_more_instances_are_looked_at_than_a_machine_has(llama, monkeypatch):
    monkeypatch.setattr(best_module, "MOST_INSTANCES", 2)
    looking = _Search(
        llama, "trn2", LayoutRequest(256, 4096), Effort(budget=1, doublings=3), None, 0.0
    )
    found = looking.with_more_instances(looking.on_fewest_instances())
    assert [where.count for where, _ in found.machine_steps] == [1, 2]
    monkeypatch.setattr(best_module, "MOST_INSTANCES", 1)
    large = LayoutRequest(256, 4096, tensor=1, pipeline=1, context=1, recompute="none", zero=0)
    looking = _Search(llama, "trn2", large, Effort(budget=1), None, 0.0)
    with pytest.raises(OutOfMemory):
        looking.on_fewest_instances()


def test_a_front_has_what_nothing_beats():
    points = [(1.0, 9.0), (2.0, 5.0), (2.0, 6.0), (3.0, 5.0), (9.0, 1.0), (9.0, 1.0)]
    assert front(points) == [0, 1, 4, 5]
    assert front([]) == []
