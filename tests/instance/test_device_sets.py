"""Legal sets against AWS's drawings, typed from them, and against a search over all subsets."""

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.instance.device_sets import (
    choose,
    choose_cores,
    core_refusal,
    is_legal,
    legal_core_counts,
    legal_core_sets,
    legal_counts,
    legal_sets,
    refusal,
    rule,
    whole_devices,
)
from trnsim.instance.model import instance_model

ROWS = [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)]
HALVES = [tuple(range(8)), tuple(range(8, 16))]
DRAWN = {1: [(device,) for device in range(16)], 4: ROWS, 8: HALVES, 16: [tuple(range(16))]}
"""eks-trn1-device-set4.png, eks-trn1-device-set8.png and neuron-dra-connected-devices.jpeg."""
TORI = ("trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge", "trn2u.48xlarge", "trn2n.48xlarge")
LINES = ("inf1.6xlarge", "inf1.24xlarge", "inf2.24xlarge", "inf2.48xlarge")
NEURON = [
    row.name for row in catalogue().instances.values() if row.accelerator in catalogue().chips
]


def subsets(items):
    items = list(items)
    return chain.from_iterable(combinations(items, count) for count in range(len(items) + 1))


def is_connected(model, devices):
    """True if each device is reached from the first over links within the set."""
    reached, edge = {devices[0]}, [devices[0]]
    while edge:
        near = set(model.devices[edge.pop()].connected) & set(devices) - reached
        reached |= near
        edge += near
    return reached == set(devices)


@pytest.mark.parametrize("name", TORI)
def test_a_torus_has_the_drawn_sets_and_no_other(name):
    assert legal_counts(name) == (1, 4, 8, 16)
    for count in range(-1, 18):
        assert list(legal_sets(name, count)) == DRAWN.get(count, [])
    for crossed_out in [(1, 2), (9, 10, 13, 14)]:  # eks-trn1-device-set-unsupported.png
        assert not is_legal(name, crossed_out)
    assert not is_legal(name, range(4, 12))  # connected, and in no drawing
    assert is_legal(name, (7, 5, 6, 4))


@pytest.mark.parametrize("name", LINES)
def test_a_line_has_every_connected_set_of_consecutive_numbers(name):
    model = instance_model(name, 1)
    devices = range(len(model.devices))
    assert legal_counts(name) == tuple(range(1, len(devices) + 1))
    for count in [0, *legal_counts(name), len(devices) + 1]:
        sets = legal_sets(name, count)
        if len(devices) < 13 and count:  # the search is over all subsets
            assert list(sets) == [
                each
                for each in combinations(devices, count)
                if each[-1] - each[0] == count - 1 and is_connected(model, each)
            ]
        assert len(sets) == (len(devices) - count + 1 if count else 0)
    assert not is_legal(name, (0, 2))  # eks-inf2-device-set.png
    assert not is_legal(name, (0, len(devices) - 1))


@pytest.mark.parametrize("name", NEURON)
def test_one_and_all_are_legal_and_sets_are_connected(name):
    """Scheduler.rst's note; the DRA driver calls its sets connected."""
    model = instance_model(name, 1)
    devices = range(len(model.devices))
    assert is_legal(name, [0])
    assert is_legal(name, devices)
    per_host = 16
    for count in legal_counts(name):
        for each in legal_sets(name, count):
            assert len(each) == count
            assert set(each) <= set(devices)
            if count <= per_host and rule(name).is_documented:
                assert is_connected(model, each)
    assert rule(name).provenance.source


def test_ultraservers_are_shared_by_whole_hosts():
    trn2, gen1, gen2 = NEURON[-3:]
    for name in (trn2, gen1):
        assert legal_counts(name) == (1, 4, 8, 16, 32, 64)
        assert legal_sets(name, 32) == (tuple(range(32)), tuple(range(32, 64)))
        assert len(legal_sets(name, 16)) == 4
        assert not rule(name).is_documented
    assert legal_counts(gen2) == (1, 4, 8, 16, 144)
    model = instance_model(gen2, 1)
    for each in legal_sets(gen2, 4):
        assert set(model.devices[each[0]].connected) == set(each[1:])  # behind one switch
    sixteens = legal_sets(gen2, 16)
    assert len(sixteens) == 8
    assert {each[0] // 72 == each[-1] // 72 for each in sixteens} == {True}  # in one rack
    assert sixteens[4][0] == 72


@pytest.mark.parametrize(
    ("name", "count", "fix"),
    [
        ("trn1.32xlarge", 7, "request 1, 4, 8 or 16"),
        ("trn1.32xlarge", 2, "request 1, 4, 8 or 16"),
        ("trn1.32xlarge", 17, "request 1, 4, 8 or 16"),
        ("trn1.32xlarge", 0, "request 1, 4, 8 or 16"),
        ("inf2.48xlarge", 13, "request 1 to 12"),
        ("trn1.2xlarge", 2, "request 1"),
    ],
)
def test_a_refusal_has_aws_s_own_words(name, count, fix):
    refused = refusal(name, count)
    assert refused.reason == (
        f"Instance type {name} does not support requests for device: {count}. "
        "Please request a different number of devices."
    )
    assert refused.fix == fix
    assert "aws-neuron-sdk@81ce03ae deploy/infrastructure/scheduler.rst" in refused.source


def test_a_legal_count_is_not_refused():
    assert all(refusal(name, count) is None for name in NEURON for count in legal_counts(name))


def test_other_instances_are_refused():
    for name in ("p5.48xlarge", "trn9.48xlarge", ""):
        with pytest.raises(BadInput, match="instance"):
            legal_counts(name)


def best_left(sets_of, free, count):
    """For every free set of `count` what is left, as counts of free sets, the largest first."""
    for each in sets_of.get(count, []):
        if set(each) <= set(free):
            rest = set(free) - set(each)
            yield (
                [
                    sum(set(other) <= rest for other in sets_of[size])
                    for size in sorted(sets_of, reverse=True)
                ],
                each,
            )


def check_choice(name, sets_of, free):
    for count in sets_of:
        possible = list(best_left(sets_of, free, count))
        chosen = choose(name, count, free)
        if not possible:
            assert chosen is None
            continue
        best = max(left for left, _ in possible)
        assert chosen == min(each for left, each in possible if left == best)


def test_the_choice_on_a_line_is_the_best_of_all():
    for name, total in (("inf1.6xlarge", 4), ("inf2.24xlarge", 6)):
        runs = {
            size: [tuple(range(at, at + size)) for at in range(total - size + 1)]
            for size in range(1, total + 1)
        }
        for free in subsets(range(total)):
            check_choice(name, runs, free)


@given(st.sets(st.integers(0, 15)))
def test_the_choice_on_a_torus_is_the_best_of_all(free):
    check_choice("trn1.32xlarge", DRAWN, free)


def test_single_devices_fill_a_broken_row_first():
    free, taken = set(range(16)), []
    for _ in range(5):
        (device,) = choose("trn2.48xlarge", 1, free)
        free.remove(device)
        taken.append(device)
    assert taken == [0, 1, 2, 3, 4]
    assert choose("trn2.48xlarge", 8, free) == HALVES[1]
    assert choose("trn2.48xlarge", 4, free) == ROWS[2]
    assert choose("trn2.48xlarge", 4, free - {8, 12}) is None


def test_devices_that_the_instance_lacks_are_not_chosen():
    assert choose("inf2.xlarge", 1, [7, -1]) is None
    assert choose("inf2.xlarge", 1, [0, 7]) == (0,)
    assert choose("inf2.xlarge", 2, [0, 1]) is None


@pytest.mark.parametrize("per_device", [1, 2, 4, 8])
def test_cores_of_a_torus_are_of_one_device_or_all_of_a_set(per_device):
    legal = {*range(1, per_device + 1), 4 * per_device, 8 * per_device, 16 * per_device}
    assert set(legal_core_counts("trn1.32xlarge", per_device)) == legal
    for count in range(16 * per_device + 2):
        sets = legal_core_sets("trn1.32xlarge", count, per_device)
        assert bool(sets) == (count in legal)
        for each in sets:
            devices = sorted({core // per_device for core in each})
            assert each == tuple(range(each[0], each[0] + count))
            assert devices == [devices[0]] or tuple(devices) in DRAWN[len(devices)]
        assert len(set(sets)) == len(sets)


def test_cores_of_a_line_are_any_run():
    """AWS's example: nine cores of an instance of sixteen get 0 to 8."""
    assert legal_core_counts("inf1.6xlarge", 4) == tuple(range(1, 17))
    assert choose_cores("inf1.6xlarge", 9, range(16), 4) == tuple(range(9))
    assert len(legal_core_sets("inf1.6xlarge", 9, 4)) == 8


def test_refused_cores():
    refused = core_refusal("trn1.32xlarge", 3, 2)
    assert refused.reason == (
        "Instance type trn1.32xlarge does not support requests for neuroncore: 3. "
        "Please request a different number of cores."
    )
    assert refused.fix == "request 1, 2, 8, 16 or 32"
    assert core_refusal("trn1.32xlarge", 8, 2) is None
    assert core_refusal("inf2.48xlarge", 25, 2).fix == "request 1 to 24"


def test_cores_fill_a_broken_device_and_break_no_large_set():
    free = set(range(32)) - {1}
    assert choose_cores("trn1.32xlarge", 1, free, 2) == (0,)
    assert choose_cores("trn1.32xlarge", 2, free, 2) == (2, 3)
    assert choose_cores("trn1.32xlarge", 16, free, 2) == tuple(range(16, 32))
    assert choose_cores("trn1.32xlarge", 32, free, 2) is None
    assert choose_cores("inf2.24xlarge", 1, {0, 1, 3, 8, 9}, 2) == (3,)
    assert choose_cores("trn2.3xlarge", 2, {1, 2, 3}, 4) == (1, 2)


@given(st.sets(st.integers(0, 11)), st.integers(1, 12))
def test_chosen_cores_are_free_and_exist_wherever_a_run_does(free, count):
    chosen = choose_cores("inf2.24xlarge", count, free, 2)
    runs = [tuple(range(at, at + count)) for at in range(13 - count)]
    fitting = [run for run in runs if set(run) <= free]
    assert (chosen in fitting) if fitting else chosen is None


def test_a_device_is_whole_if_all_its_cores_are_free():
    assert whole_devices({0, 1, 3, 4, 5}, 3, 2) == {0, 2}
    assert whole_devices(range(8), 2, 4) == {0, 1}
