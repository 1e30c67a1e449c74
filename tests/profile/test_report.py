from trnsim.profile import (
    html,
    load,
    report,
    report_of,
    write_page,
    write_report,
    write_traces,
)


def test_a_page_goes_to_the_file_or_into_the_folder(tmp_path, timeline, ran):
    report = report_of([ran(timeline)])
    assert write_page(report, tmp_path / "out") == tmp_path / "out" / "report.html"
    assert write_page(report, tmp_path / "mine.html") == tmp_path / "mine.html"
    assert "<!doctype html>" in (tmp_path / "mine.html").read_text(encoding="utf-8")


def test_a_report_is_a_page_and_what_it_was_made_from(tmp_path, timeline, ran):
    page = write_report(report_of([ran(timeline)]), tmp_path / "out", "matmul")
    assert page == tmp_path / "out" / "matmul.html"
    assert html(load(tmp_path / "out")) == page.read_text(encoding="utf-8")


def test_traces_are_perfettos_chromes_and_tables(tmp_path, timeline, ran):
    told = []
    found = write_traces(ran(timeline), tmp_path, "matmul", told.append)
    assert {kind: path.name for kind, path in found.items()} == {
        "trace": "matmul.perfetto-trace",
        "chrome": "matmul.trace.json",
        "tables": "matmul-tables",
    }
    assert all(path.exists() for path in found.values())
    assert told == [str(path) for path in found.values()]


def test_without_pyarrow_there_are_no_tables(tmp_path, timeline, ran, monkeypatch):
    monkeypatch.setattr(report, "is_available", lambda: False)
    assert write_traces(ran(timeline), tmp_path, "matmul").keys() == {"trace", "chrome"}
