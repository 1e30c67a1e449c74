import json

import pytest

from trnsim.arch import TARGETS
from trnsim.errors import BadInput
from trnsim.files import write
from trnsim.profile import load, report_of, summary_of
from trnsim.profile.formats.stored import FORMAT, VERSION, as_text


@pytest.fixture
def report(timeline, ran):
    return report_of([ran(timeline)])


def test_a_stored_report_reads_back_whole(report, tmp_path):
    path = write(tmp_path / "matmul.json", as_text(report))
    assert load(path) == load(tmp_path) == report
    assert (report["format"], report["version"]) == (FORMAT, VERSION)


def test_a_report_has_a_profile_for_each_target(timeline, ran):
    report = report_of([ran(timeline), ran(timeline, target=TARGETS["trn3"])])
    assert report["title"] == "matmul"
    assert [profile["target"] for profile in report["profiles"]] == ["trn2", "trn3"]


def test_its_summary_is_the_runs_summary(report, timeline, ran, tmp_path):
    stored = load(write(tmp_path / "matmul.json", as_text(report)))
    assert summary_of(stored["profiles"][0]) == ran(timeline).summary


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "is not a report that trnsim stored"),
        ('{"traceEvents": []}', "is not a report that trnsim stored"),
        ("\x00", "not JSON"),
    ],
)
def test_a_foreign_file_is_refused(content, reason, tmp_path):
    path = write(tmp_path / "foreign.json", content)
    with pytest.raises(BadInput, match=reason) as caught:
        load(path)
    assert "trnsim run SCRIPT --report DIR" in caught.value.fix


@pytest.mark.parametrize(
    ("content", "reason", "fix"),
    [
        ('{"schema": "run/1"}', "is an answer of run/1, which has no single time", "beside it"),
        (
            '[{"schema": "plan-train/9"}]',
            r"of plan-train/9, of another trnsim; .*plan-train/1",
            "again",
        ),
        ('{"a": 1, "schema": "plan-train/1"}', "'schema' is not its first field", "in front"),
        ('{"schema": 5}', r"legal: NAME\.json of a kernel, and answers of run-step/1, ", "run SCR"),
        ("[]", "legal: NAME", "run SCRIPT"),
    ],
)
def test_an_answer_of_another_kind_is_named_with_the_legal_ones(content, reason, fix, tmp_path):
    with pytest.raises(BadInput, match=reason) as caught:
        load(write(tmp_path / "figures.json", content))
    assert fix in caught.value.fix


def test_bytes_that_are_no_text_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"foreign\.json:1: the file is UTF-16"):
        load(write(tmp_path / "foreign.json", b"\xff\xfe"))


@pytest.mark.parametrize("key", ["title", "summary", "lines", "by_line", "gains", "advice"])
@pytest.mark.parametrize("value", [None, 3])
def test_a_profile_without_its_parts_is_refused(key, value, report, tmp_path):
    torn = {**report, "profiles": [{**report["profiles"][0], key: value}]}
    with pytest.raises(BadInput, match=f"a profile has no {key}"):
        load(write(tmp_path / "torn.json", json.dumps(torn)))


@pytest.mark.parametrize("name", ["k.html", "k.HTM", "gone.html"])
def test_a_page_is_named_with_the_report_beside_it(name, tmp_path):
    (tmp_path / "k.json").write_text("{}")
    with pytest.raises(BadInput, match=r"is a page; legal: the \.json") as refused:
        load(tmp_path / name)
    fix = "write one with" if name == "gone.html" else f"name {tmp_path / 'k.json'}"
    assert refused.value.fix.startswith(fix)


@pytest.mark.parametrize("profiles", [[], 3, [3], {}, None])
def test_a_report_without_profiles_is_refused(profiles, report, tmp_path):
    with pytest.raises(BadInput, match="is not a report that trnsim stored"):
        load(write(tmp_path / "torn.json", json.dumps({**report, "profiles": profiles})))


def test_a_report_of_another_version_is_refused(report, tmp_path):
    path = write(tmp_path / "new.json", json.dumps({**report, "version": 99}))
    with pytest.raises(BadInput, match=r"report of version 99, by trnsim .*reads version 3"):
        load(path)


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read .*gone.json"):
        load(tmp_path / "gone.json")
    with pytest.raises(BadInput, match="folder with these reports: none"):
        load(tmp_path)


def test_a_folder_of_several_reports_asks_which(report, tmp_path):
    for name in ("a.json", "b.json"):
        write(tmp_path / name, as_text(report))
    write(tmp_path / "figures.json", '{"schema": "run/1"}')
    with pytest.raises(BadInput, match=r"these reports: a.json, b.json\n") as caught:
        load(tmp_path)
    assert str(tmp_path / "a.json") in caught.value.fix
