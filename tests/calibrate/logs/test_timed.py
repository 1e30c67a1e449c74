import json
import math

import pytest

from trnsim.calibrate.logs import measurements, read
from trnsim.calibrate.logs.timed import is_nccom
from trnsim.errors import BadInput

ASKED = "plan layer llama-3.1-8b --on trn1"
REDUCED = "plan collective all_reduce --on trn1.32xlarge --ranks 2"
TABLE = """\
     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)
        1024            1024    uint8          58           0.02           0.02
    33554432        33554432    uint8         768          40.69          40.69
Avg bus bandwidth:      20.4GB/s
"""
SECRET = "hunter2-and-more"  # noqa: S105  which must appear nowhere


def report(p50, **more):
    latency = {"device_latency": {"p0": p50 / 2, "p50": p50, "p100": 2 * p50}}
    runtime = {
        "pid": 7,
        "environment": {"AWS_SECRET_ACCESS_KEY": SECRET},
        "report": {"execution_stats": {"latency_stats": latency}},
    }
    return {"neuron_runtime_data": [runtime], **more}


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return path


def seconds(log):
    return [each.value for each in log.measurements]


@pytest.mark.parametrize(
    "summary",
    [
        {"total_time": 0.002, "event_count": 4},
        {"summary": [{"total_time": 0.002}]},
        {"n_0": {"total_time": 0.001}, "n_1": {"total_time": 0.002}},
        {"nc0": {"summary": [{"total_time": 0.002}]}, "env": {"TOKEN": SECRET}},
    ],
)
def test_a_profile_has_the_total_time_of_its_slowest_core(summary, tmp_path):
    log = measurements(written(tmp_path / "a.json", summary), ASKED)
    assert (log.format, seconds(log)) == ("neuron-profile", [0.002])
    assert SECRET not in repr(log)


def test_a_table_of_explorer_has_the_total_time(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "Summary.parquet"
    parquet.write_table(arrow.table({"total_time": [0.002, None], "model_flops": [1, 2]}), path)
    assert seconds(measurements(path, ASKED)) == [0.002]
    parquet.write_table(arrow.table({"model_flops": [1]}), path)
    with pytest.raises(BadInput, match="no Parquet table with total_time"):
        measurements(path, ASKED)
    for times in (["slow"], [math.inf], [1.0, math.nan], [True], [0.0], []):
        parquet.write_table(arrow.table({"total_time": times}), path)
        with pytest.raises(BadInput, match=r"total_time is .*; legal: numbers above 0 \[s\]"):
            measurements(path, ASKED)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(BadInput, match="no Parquet table with total_time"):
        measurements(path, ASKED)


def test_neuron_monitor_has_the_median_latency_and_no_environment(tmp_path):
    lines = "\n".join(json.dumps(report(p50)) for p50 in (0.001, 0.0, 0.003, 0.002))
    log = measurements(written(tmp_path / "a.jsonl", lines), ASKED)
    assert (log.format, seconds(log)) == ("neuron-monitor", [0.002])
    assert SECRET not in repr(log)
    only = measurements(written(tmp_path / "b.json", report(0.004)), ASKED)
    assert seconds(only) == [0.004]


def test_a_clock_that_runs_backwards_is_named_with_its_line(tmp_path):
    lines = "\n".join(json.dumps(report(0.001, timestamp=at)) for at in (5, 7, 6))
    with pytest.raises(BadInput, match=r"a\.jsonl:3: timestamp is 6: earlier than 7 of the report"):
        measurements(written(tmp_path / "a.jsonl", lines), ASKED)


def test_reports_without_a_program_are_refused(tmp_path):
    path = written(tmp_path / "a.jsonl", json.dumps({"neuron_runtime_data": []}))
    with pytest.raises(BadInput, match="no report has a latency of an execution"):
        measurements(path, ASKED)


def test_nccom_test_has_a_question_for_each_size(tmp_path):
    log = measurements(written(tmp_path / "a.txt", TABLE), REDUCED)
    assert [
        (each.question, round(each.value * 1e6), each.line.line) for each in log.measurements
    ] == [
        (f"{REDUCED} --bytes 1024", 58, 2),
        (f"{REDUCED} --bytes 33554432", 768, 3),
    ]
    told = [{"size(B)": 1024, "time:avg(us)": 58.0, "busbw(GB/s)": 0.02}]
    as_json = measurements(written(tmp_path / "a.json", told), REDUCED)
    assert [each.question for each in as_json.measurements] == [f"{REDUCED} --bytes 1024"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLE.replace("         768          40.69          40.69", "  76"), r"a\.txt:3: 4 cells"),
        (TABLE.replace(" 58 ", " -1 "), r"a\.txt:2: '-1' is no number above 0"),
        (TABLE.splitlines()[0], r"a\.txt:1: a table of nccom-test without a line"),
        (TABLE.replace("time(us)", "time:p50(us)"), r"a\.txt:1: the table has no mean time; legal"),
    ],
)
def test_a_table_that_is_cut_short_is_named_with_its_line(table, said, tmp_path):
    assert is_nccom(table)
    with pytest.raises(BadInput, match=said):
        measurements(written(tmp_path / "a.txt", table), REDUCED)


def test_lines_of_a_bill_have_rates_and_their_instance(tmp_path):
    bill = (
        "line_item_usage_amount,product_instance_type,rate,line_item_resource_id\n"
        "3.0,inf2.xlarge,900,i-1\n1.0,inf2.xlarge,950,i-2\n"
    )
    log = measurements(written(tmp_path / "a.csv", bill), ASKED)
    assert (log.format, seconds(log)) == ("bill", [900, 950])
    assert {(each.figure, each.instance) for each in log.measurements} == {
        ("units_per_s", "inf2.xlarge")
    }
    with pytest.raises(BadInput, match=r"a\.csv:2: rate is missing"):
        measurements(written(tmp_path / "a.csv", bill.replace("900", "")), ASKED)


def test_a_pilot_takes_no_tools_log(tmp_path):
    with pytest.raises(BadInput, match="a log of nccom-test, which has no run; legal: vllm, "):
        read(written(tmp_path / "a.txt", TABLE))


def test_a_json_that_is_cut_short_is_named_with_its_line(tmp_path):
    text = json.dumps(report(0.001), indent=1)
    with pytest.raises(BadInput, match=r"a\.json:\d+: not JSON"):
        measurements(written(tmp_path / "a.json", text[: len(text) // 2]), ASKED)
