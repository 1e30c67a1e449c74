"""Reports of a run: what cannot be written is an error, and the rest is there."""

from dataclasses import replace

import pytest

import trnsim
from trnsim.cli.run_reports import Reports
from trnsim.demo import examples
from trnsim.errors import BadInput
from trnsim.profile import report


@pytest.fixture(scope="module")
def attention():
    import numpy as np  # noqa: PLC0415

    array = np.zeros((512, 64), np.float32)
    return trnsim.run(examples.module("attention").attention, *[array] * 3, numerics=False)


def reports(folder, **options):
    return Reports(folder, "--on", lambda _: None, is_verbose=False, **options)


def test_a_kernel_has_its_page_and_all_else_in_a_folder_that_is_named(attention, tmp_path):
    gathered = reports(tmp_path / "here")
    gathered.add_kernels([[attention]])
    assert set(gathered.parts[0].files) == {"report", "stored", "trace", "chrome", "tables"}
    gathered.answer(tmp_path / "p.py", ["trn2"], as_json=False)
    assert (tmp_path / "here" / "page.html").is_file()
    assert (tmp_path / "here" / "table.csv").read_text().startswith("kind,name,target,time_s,")


def test_kernels_of_a_program_have_numbers(attention, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gathered = reports(None)
    gathered.add_kernels([[attention, attention]])
    names = [part.files["report"].name for part in gathered.parts]
    assert names == ["attention-0.html", "attention-1.html"]


@pytest.mark.parametrize("name", ["page", "Figures", "table", "step"])
def test_a_kernels_files_leave_the_answers_alone(name, attention, tmp_path):
    gathered = reports(tmp_path)
    gathered.add_kernels([[replace(attention, title=name)]])
    assert gathered.parts[0].files["report"].name == f"{name}-0.html"


def test_a_report_that_cannot_be_written_is_an_error_beside_the_answer(attention, tmp_path):
    (tmp_path / "file").write_text("")
    gathered = reports(tmp_path / "file")
    gathered.add_kernels([[attention]])
    assert len(gathered.parts) == len(gathered.errors) == 1
    assert gathered.parts[0].files == {}


def test_without_pyarrow_a_note_says_how_to_have_tables(attention, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "is_available", lambda: False)
    gathered = reports(tmp_path)
    gathered.add_kernels([[attention]])
    gathered.answer(tmp_path / "p.py", ["trn2"], as_json=False)
    assert (
        "Parquet tables are not written: pip install 'trnsim[parquet]'" in capsys.readouterr().out
    )


def test_nothing_is_saved_of_nothing(tmp_path):
    with pytest.raises(BadInput, match="no kernel ran"):
        reports(None).save(tmp_path / "o.npy", [])
