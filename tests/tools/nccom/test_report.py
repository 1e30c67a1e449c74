"""The table and the JSON of nccom-test, in AWS's form."""

import pytest

from trnsim.calibrate.logs.timed import nccom
from trnsim.errors import BadInput
from trnsim.fabric.fabric import fabric
from trnsim.tools.nccom import report
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.report import ReportColumns, statistics, table
from trnsim.tools.nccom.streams import blocks
from trnsim.tools.nccom.times import fabric_of, planned_operation


def rows_of(name="allr", where=None, **stated):
    stated = OperationOptions(operation=name, **stated)
    (rows,) = blocks([planned_operation(stated, where or fabric_of("trn1.32xlarge", 1, 1, 2))])
    return rows


RANGE = {"minbytes": "1KB", "maxbytes": "1GB", "stepfactor": "1024"}


def test_the_table_is_in_the_form_of_awss_page():
    """Heads, the default of 32 MB of uint8, and GB of 2**30."""
    (row,) = rows = rows_of()
    lines = table(rows).splitlines()
    rate = 33_554_432 / row.time.time_s / 2**30
    time = str(round(row.time.time_s * 1e6, 2))
    assert lines == [
        "     size(B)    count(elems)     type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
        f"    33554432        33554432    uint8    {time:>12}    {rate:>11.2f}    {rate:>11.2f}",
        f"Avg bus bandwidth:      {rate:.4f}GB/s",
    ]


def test_columns_stand_where_the_page_has_them():
    columns = ReportColumns(("avg", "p50"), has_algorithm=True, has_buffers=True, has_interval=True)
    head, first, *_ = table(rows_of("allg", fabric("trn1.32xlarge"), **RANGE), columns).splitlines()
    assert head.split() == [
        "size(B)", "count(elems)", "total_input_size(B)", "total_output_size(B)", "type",
        "time:avg(us)", "time:p50(us)", "algbw(GB/s)", "busbw(GB/s)", "algorithm", "P10(us)",
        "P90(us)",
    ]  # fmt: skip
    cells = first.split()
    assert cells[:5] == ["1024", "1024", "32", "1024", "uint8"]
    assert int(cells[6]) == round(float(cells[5]))
    assert float(cells[-2]) < float(cells[5]) < float(cells[-1])


def test_the_mean_is_of_the_bus_bandwidths():
    rows = rows_of(**RANGE)
    mean = sum(row.bus_gib_per_s for row in rows) / 3
    assert table(rows).splitlines()[-1] == f"Avg bus bandwidth:      {mean:.4f}GB/s"


def test_results_have_the_keys_of_awss_example():
    rows = rows_of(datatype="fp32", **RANGE)
    answer = report.answer([rows], ReportColumns(), {"nworkers": 2})
    assert list(answer["results"][0]) == [
        "size(B)", "count(elems)", "type", "algbw(GB/s)", "busbw(GB/s)", "time:avg(us)",
    ]  # fmt: skip
    for row, result, estimate in zip(rows, answer["results"], answer["estimates"], strict=True):
        assert (result["size(B)"], result["count(elems)"]) == (row.nbytes, row.nbytes // 4)
        assert result["algbw(GB/s)"] == row.algorithm_gib_per_s  # not rounded
        assert estimate["size(B)"] == row.nbytes
        assert estimate["p10(us)"] < result["time:avg(us)"] < estimate["p90(us)"]
        assert estimate["published_rows"] == 15
        assert estimate["published_rows_inside_interval"] == 14
    assert answer["estimates"][0]["nearest_row"] == "nccom-allr2-1024"
    assert [each["floor"] for each in answer["estimates"]] == [
        "started by the host",
        "started by the host",
        "started by the host (hidden)",
    ]
    assert answer["config"] == {"nworkers": 2}


def test_results_have_a_key_for_each_column():
    columns = ReportColumns(("p99",), has_algorithm=True, has_buffers=True, has_interval=True)
    (result,) = report.results([rows_of()], columns)
    assert set(result) == {
        "size(B)", "count(elems)", "type", "algbw(GB/s)", "busbw(GB/s)", "time:p99(us)",
        "algorithm", "total_input_size(B)", "total_output_size(B)",
    }  # fmt: skip
    two = report.results([rows_of(), rows_of()], ReportColumns())
    assert [row["stream"] for row in two] == [0, 1]


@pytest.mark.parametrize("names", [(), ("avg",), ("p0", "p100", "avg"), ("p5", "p50")])
def test_statistics_are_the_average_and_percentiles(names):
    assert statistics(names) == (names or ("avg",))
    assert statistics(("p1", "p1")) == ("p1",)


@pytest.mark.parametrize("name", ["p101", "p", "p9.9", "median", "", "P50", "allg"])
def test_another_statistic_is_refused(name):
    with pytest.raises(BadInput, match=rf"--stats {name}; legal: avg, and percentiles from p0 to"):
        statistics(("avg", name))


def test_the_floor_is_named():
    assert report.floor_text(rows_of(minbytes="8", maxbytes="64")) == "each is started by the host"
    assert report.floor_text(rows_of(**RANGE)) == (
        "each is started by the host; from 1,073,741,824 bytes on, transfers take longer"
    )


def test_an_interval_stands_beside_each_size():
    rows = rows_of(**RANGE)
    lines = report.interval_lines([*rows, *rows])  # streams repeat sizes
    assert len(lines) == 3
    low, high = (
        f"{end * 1e6:,.2f}" for end in (rows[0].time.interval.p10, rows[0].time.interval.p90)
    )
    assert lines[0] == (
        f"P10 to P90 at 1,024 bytes: {low} to {high} us; nearest of 15 published rows of the first "
        "generation, one instance: all_reduce, 2 ranks, 1,024 bytes (estimated +0 %)"
    )
    assert not any(line.split()[0].isdecimal() for line in lines)  # no line of the table
    assert report.coverage_text(rows).startswith("of the 15 published rows 14 are within P10 to P")
    far = rows_of(where=fabric_of("trn2.48xlarge", 2, 2, 64), minbytes="8", maxbytes="8")
    assert report.coverage_text(far).startswith("no published row says how wide")
    assert (
        "no published row of chips after the first generation, several"
        in (report.interval_lines(far)[0])
    )


@pytest.mark.parametrize(
    "columns", [ReportColumns(), ReportColumns(("p50", "avg"), True, True, True)]
)
def test_calibrate_reads_the_table(columns):
    rows = rows_of("allg", fabric("trn1.32xlarge"), datatype="fp32", **RANGE)
    read = nccom("log.txt", table(rows, columns)).values
    assert [value.value for value in read] == pytest.approx(
        [row.time.time_s for row in rows], rel=1e-3
    )
    assert [value.options for value in read] == [f"--bytes {row.nbytes}" for row in rows]
