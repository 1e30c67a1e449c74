"""The text of metrics, in torch_xla's form."""


def test_times_and_reports_are_written_as_torch_xla_writes_them():
    from trnsim.xla.cuts.ledger import Ledger, Samples
    from trnsim.xla.cuts.metric_text import report, time_text

    assert time_text(214_891) == "214.891us"
    assert time_text(44_031) == "044.031us"
    assert time_text(4_325_808) == "004ms325.808us"
    assert time_text(122_634_339) == "122ms634.339us"
    assert time_text(2_342_242_311) == "02s342ms242.311us"
    ledger = Ledger()
    ledger.counters["MarkStep"] = 3
    ledger.metrics["CompileTime"] = Samples(2, 3e6, [(1.0, 1e6), (2.0, 2e6)])
    ledger.metrics["TensorsGraphSize"] = Samples(1, 4.0, [(1.0, 4.0)])
    assert report(
        ledger, "trn2", metrics=["CompileTime", "absent"], counters=["MarkStep", "x"]
    ) == (
        "Metric: CompileTime\n  TotalSamples: 2\n  Accumulator: 003ms000.000us\n"
        "  ValueRate: 003ms000.000us / second\n  Rate: 2 / second\n  Percentiles: "
        "1%=001ms000.000us; 5%=001ms000.000us; 10%=001ms000.000us; 20%=001ms000.000us; "
        "50%=002ms000.000us; 80%=002ms000.000us; 90%=002ms000.000us; 95%=002ms000.000us; "
        "99%=002ms000.000us\nCounter: MarkStep\n  Value: 3\n"
    )
    assert "TotalSamples: 1\n  Accumulator: 4.00\n  Percentiles: 1%=4.00" in report(ledger, "trn2")


def test_hours_and_days_are_written_too():
    from trnsim.xla.cuts.metric_text import time_text

    assert time_text((3 * 3600 + 5) * 1e9) == "03h00m05s000ms000.000us"
    assert time_text((26 * 3600 + 60) * 1e9 + 7e6) == "01d02h01m00s007ms000.000us"
