import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.instance.state import record as module
from trnsim.instance.state.record import (
    PERCENTILES,
    LoadedModel,
    ProcessRecord,
    from_json,
    latency_percentiles,
    percentiles,
    to_json,
)

RECORD = ProcessRecord(
    pid=7,
    start_time="123",
    command="python train.py",
    tool="torch",
    tag="7",
    instance="trn2.48xlarge",
    lnc=2,
    cores=(4, 5),
    updated_at=1.5,
    memory_bytes={4: {"tensors": 10, "constants": 3}},
    host_bytes={"application_memory": 5},
    busy_s={4: {"pe": 2.0, "vector": 3.0}, 5: {}},
    elapsed_s={4: 4.0, 5: 0.0},
    flop={4: 1e12},
    executions={"completed": 3},
    errors={"hardware": 1},
    total_latency_s={"p50": 0.2},
    device_latency_s={"p50": 0.1},
    latencies=((0.2, 0.1, 3), (0.4, 0.1, 1)),
    models=(LoadedModel(3, "forward-0", 4, 16, is_running=False),),
    loads={4: 2},
)


def test_a_record_is_written_and_read_back():
    assert from_json(to_json(RECORD)) == RECORD
    assert to_json(RECORD).endswith("\n")


TIMES_S = st.lists(st.tuples(st.sampled_from([1e-6, 2e-6, 0.5]), st.sampled_from([1e-6, 0.25])))


def counted(pairs):
    return tuple((*pair, pairs.count(pair)) for pair in dict.fromkeys(pairs))


@given(TIMES_S, TIMES_S)
def test_latencies_of_a_period_are_those_of_its_executions_alone(earlier, later):
    """The oracle sorts them one by one."""
    before = replace(RECORD, latencies=counted(earlier))
    now = replace(RECORD, latencies=counted(earlier + later))
    for found, own in zip(latency_percentiles(now, before), zip(*later, strict=True), strict=False):
        assert found == {
            name: sorted(own)[round(share * (len(own) - 1))] for name, share in PERCENTILES.items()
        }
    if not later:
        assert latency_percentiles(now, before) == ({}, {})
    assert latency_percentiles(now) == latency_percentiles(now, replace(RECORD, latencies=()))


def test_text_that_is_no_unicode_is_replaced():
    """A tag or a command in bytes that are no UTF-8, which Python reads as half pairs."""
    found = from_json(to_json(replace(RECORD, tag="a\udcff", command="\udcfe")))
    assert (found.tag, found.command) == ("a?", "?")


def test_every_part_of_a_file_that_was_cut_is_refused():
    text = to_json(RECORD).rstrip()
    for length in range(len(text)):
        with pytest.raises(ValueError):  # noqa: PT011  of the parser or ours
            from_json(text[:length])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latencies", [[1, 2]]), ("latencies", [[1, 2, "3"]]), ("latencies", 3),
        ("pid", -1), ("pid", True), ("pid", "7"), ("pid", 1.5), ("start_time", 1), ("cores", 3),
        ("lnc", 0), ("lnc", 10**9), ("lnc", True),
        ("cores", ["a"]), ("updated_at", None), ("updated_at", "now"), ("memory_bytes", []),
        ("memory_bytes", {"x": {}}), ("memory_bytes", {"0": 3}), ("busy_s", {"0": {"pe": None}}),
        ("executions", 3), ("flop", {"0": "1"}), ("elapsed_s", {"0": float("nan")}),
        ("elapsed_s", {"0": float("inf")}), ("models", 3), ("models", [{}]), ("models", [3]),
        ("models", [{"number": -1, "name": "a", "core": 0, "constant_bytes": 0, "is_running": 1}]),
        ("loads", {"0": None}),
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(field, value):
    row = json.loads(to_json(RECORD)) | {field: value}
    with pytest.raises(ValueError):  # noqa: PT011  of int() or ours
        from_json(json.dumps(row))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", "{}", b"\xff\xfe", "{"])
def test_other_files_are_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011  as above
        from_json(text)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data):
    with pytest.raises((ValueError, RecursionError)):
        from_json(data)


def test_a_field_that_is_missing_is_refused():
    row = json.loads(to_json(RECORD))
    for name in row:
        with pytest.raises(ValueError, match="no record"):
            from_json(json.dumps({key: value for key, value in row.items() if key != name}))


def test_utilization_is_busy_over_elapsed_time():
    assert RECORD.utilization(4) == 0.75
    assert RECORD.utilization(4, "pe") == 0.5
    assert RECORD.utilization(4, "dma") == 0.0
    assert RECORD.utilization(5) == 0.0
    assert RECORD.utilization(9) == 0.0


def test_utilization_between_two_records_is_that_of_the_difference():
    later = replace(RECORD, busy_s={4: {"pe": 2.5, "vector": 3.1}}, elapsed_s={4: 5.0})
    assert later.utilization(4, before=RECORD) == pytest.approx(0.5)
    assert later.utilization(4, "vector", before=RECORD) == pytest.approx(0.1)
    assert RECORD.utilization(4, before=RECORD) == 0.0
    assert RECORD.utilization(4, before=later) == 0.0


@pytest.mark.parametrize("number", [1, 2, 3, 100, 101])
def test_percentiles_are_values_of_the_nearest_rank(number):
    values = np.random.default_rng(number).permutation(number) / 7
    found = percentiles(dict.fromkeys(values, 1))
    assert found == percentiles(dict.fromkeys(values, 1000)) or number > 1
    assert list(found) == list(PERCENTILES)
    assert found["p0"] == values.min()
    assert found["p100"] == values.max()
    for name, share in PERCENTILES.items():
        assert found[name] in values
        assert abs(found[name] - np.quantile(values, share)) <= 0.5 / 7 + 1e-12


def test_no_values_have_no_percentiles():
    assert percentiles({}) == {}


def test_a_value_that_came_often_counts_as_often():
    values = [1.0] * 90 + [2.0] * 9 + [3.0]
    found = percentiles({3.0: 1, 1.0: 90, 2.0: 9})
    expected = {name: sorted(values)[round(q * 99)] for name, q in PERCENTILES.items()}
    assert found == expected


def test_the_names_are_those_of_neuron_monitor():
    assert len(module.STATUSES) == len(module.ERRORS) == 6
    assert set(PERCENTILES) == {"p0", "p1", "p25", "p50", "p75", "p99", "p100"}
