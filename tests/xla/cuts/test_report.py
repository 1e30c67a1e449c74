"""The cuts in a step's report: lines, kinds, counts, times and causes."""


def test_a_report_has_cuts_by_line_and_the_cause_of_each_recompilation():
    import torch
    import torch_xla

    from trnsim.xla.cuts import report as module
    from trnsim.xla.cuts.cutting import cuts
    from trnsim.xla.cuts.ledger import Ledger
    from trnsim.xla.cuts.report import CutReport

    assert CutReport(Ledger()).rows() == []
    assert CutReport(Ledger()).blocks("trn2") == ()
    assert CutReport(Ledger()).values("trn2") == {}
    table = torch.ones(3, 4).to(torch_xla.device())
    torch_xla.sync()
    cuts.ledger.forget()
    cuts.ledger.cuts.clear()
    for number in (0, 0, 1):
        row = table[number] * 2.5
        torch_xla.sync()
    assert row.shape == (4,)
    report = CutReport(cuts.ledger)
    (_, text), (_, cause) = report.rows()
    assert text == "3 executions of 2 compiled programs"
    assert cause.startswith("an index: a part of [3, 4] begins at [1, 0], and began at [0, 0] (")
    found, _, causes = report.blocks("trn2")
    ((place, *figures, time),) = found.rows
    assert place.startswith("test_report.py:")
    assert figures == ["sync", "3", "3", "2"]
    assert time.endswith(" us")
    assert float(time.partition(" ")[0]) > 0
    ((cut_at, text, at),) = causes.rows
    assert (cut_at, text) == (place, cause.partition(" (")[0])
    assert at == cause.partition(" (")[2][:-1]
    assert int(cut_at.rpartition(":")[2]) - int(at.rpartition(":")[2]) == 1
    values = report.values("trn2")
    (value,) = values["cuts"]
    assert value == {
        "line": place, "kind": "sync", "cuts": 3, "executions": 3, "compilations": 2,
        "device_time_s": value["device_time_s"],
    }  # fmt: skip
    assert f"{1e6 * value['device_time_s']:.2f} us" == time
    assert values["recompilations"] == [{"line": place, "change": text, "change_line": at}]
    module._MOST_ROWS = 0
    assert report.values("trn2") == values
    assert report.blocks("trn2")[-1].words == "1 more are not shown"
