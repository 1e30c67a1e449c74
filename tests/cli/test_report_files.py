import csv
import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli import app, report_files
from trnsim.cli.options import parser
from trnsim.cli.report_files import PrintedAnswer, answering
from trnsim.document.answer import Document, Section, Table, columns
from trnsim.errors import BadInput


def of(title):
    table = Table(columns("a | b"), [["x, y", "1"]])
    return Document(title, {"usd": 1.5, "none": float("nan")}, [Section("", [table])])


def test_three_files_are_written_and_an_old_report_is_replaced(tmp_path):
    folder = tmp_path / "new" / "report"
    for title in ("old", "ä"):
        report_files.check_report(folder)
        made = report_files.write_report(folder, of(title))
    assert [path.name for path in made] == ["page.html", "figures.json", "table.csv"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in made)
    assert "<title>ä</title>" in made[0].read_text(encoding="utf-8")
    assert json.loads(made[1].read_text()) == {"usd": 1.5, "none": None}
    with made[2].open(newline="") as table:
        assert list(csv.reader(table)) == [["a", "b"], ["x, y", "1"]]


def test_what_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write to the folder .*: it is a file"):
        report_files.check_report(tmp_path / "file")
    (tmp_path / "table.csv").mkdir()
    with pytest.raises(BadInput, match=r"cannot write .*table.csv"):
        report_files.check_report(tmp_path)


def test_nothing_is_left_by_the_check(tmp_path):
    report_files.check_report(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_a_page_that_is_named_has_its_files_beside_it(tmp_path):
    made = report_files.write_report(tmp_path / "plan.html", of("t"))
    assert [path.name for path in made] == ["plan.html", "plan.json", "plan.csv"]


@pytest.mark.parametrize(
    ("ending", "start"),
    [(".json", '{\n "usd": 1.5'), (".csv", "a,b\n"), (".txt", "a     b\n"), (".HTML", "<!")],
)
def test_an_answer_is_written_as_its_ending_says(ending, start, tmp_path):
    path = report_files.write_output(tmp_path / f"a{ending}", report_files.PrintedAnswer(of("t")))
    assert path.read_text(encoding="utf-8").lower().startswith(start)


def test_an_ending_or_answer_without_a_form_is_refused(tmp_path):
    with pytest.raises(
        BadInput, match=r"a\.pdf; legal endings: \.json, \.csv, \.txt, \.md and \.html"
    ):
        report_files.check_output(tmp_path / "a.pdf")
    with pytest.raises(BadInput, match="the answer has no table"):
        report_files.write_output(
            tmp_path / "a.csv", report_files.PrintedAnswer(Document("", {}, [Section("", [])]))
        )


@pytest.fixture
def greet():
    app = parser()

    @app.command()
    @answering
    def greet(
        name: Annotated[str, typer.Option(metavar="NAME")] = "t",
    ) -> Document | PrintedAnswer | None:
        """Greet."""
        made = of(name)
        return {"none": None, "own": PrintedAnswer(made, '{"own": 1}', [Path("more.txt")])}.get(
            name, made
        )

    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


def test_a_command_that_answers_has_the_three_options(greet, tmp_path):
    page, table = tmp_path / "a.html", tmp_path / "b.csv"
    told = greet("--output", table, "--report", page).output
    assert told == f"a     b\nx, y  1\nwrote {table}\nwrote {page}\n"
    assert {file.name for file in tmp_path.iterdir()} == {"a.html", "a.json", "a.csv", "b.csv"}
    assert json.loads(greet("--json", "--output", table).output) == {"usd": 1.5, "none": None}
    assert greet("--name", "own", "--json").output == '{"own": 1}\n'
    assert greet("--name", "own").output.endswith("wrote more.txt\n")


def test_a_command_that_printed_something_else_writes_no_file(greet, tmp_path):
    assert greet("--name", "none").exit_code == 0
    refused = greet("--name", "none", "--report", tmp_path).exception
    assert isinstance(refused, BadInput)
    assert not list(tmp_path.iterdir())


def test_a_document_is_printed_as_text_or_json_and_its_report_named(tmp_path, capsys):
    report_files.answer(of("t"))
    assert capsys.readouterr().out == "a     b\nx, y  1\n"
    report_files.answer(of("t"), tmp_path)
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'page.html'}\n")
    report_files.answer(of("t"), tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"usd": 1.5, "none": None}


@pytest.mark.parametrize(
    "asked",
    [
        ("assess", "--template"),
        ("plan", "train", "gpt2", "--emit", "sbatch"),
        ("plan", "serve", "gpt2", "--emit", "vllm"),
    ],
)
@pytest.mark.parametrize("given", [("--json",), ("--output", "run.sh"), ("--report", "here")])
def test_a_printed_file_has_no_answer_beside_it(asked, given):
    """It is refused before anything is planned."""
    option = next(word for word in asked if word in ("--template", "--emit"))
    with pytest.raises(BadInput, match=f"^{option} prints a file, and {given[0]} is for") as caught:
        CliRunner().invoke(app, [*asked, *given], catch_exceptions=False)
    assert caught.value.fix.startswith(f"leave {given[0]} out; '> FILE' behind the command")
