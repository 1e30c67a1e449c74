"""The tables read back, by another library than the one that wrote them."""

import polars as pl
import pytest

from trnsim.errors import BadInput
from trnsim.profile import summarize
from trnsim.profile.measures.schema import tables
from trnsim.profile.tables import explorer_tables, parquet

READ = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "float32": pl.Float32,
    "string": pl.String,
    "bool": pl.Boolean,
}


@pytest.fixture
def found(timeline):
    return explorer_tables([timeline, timeline], summarize(timeline), "two cores")


def test_every_table_has_the_documented_names_and_types(found, tmp_path):
    folder = parquet.write_tables(found, tmp_path / "tables")
    assert {path.stem for path in folder.iterdir()} == set(tables())
    for name, columns in tables().items():
        frame = pl.read_parquet(folder / f"{name}.parquet")
        assert dict(frame.schema) == {c: READ[kind] for c, kind in columns.items()}, name
        assert len(frame) > 0 or name in {"CcOp", "CcStream"}  # of programs with collectives


def test_values_read_back(found, tmp_path, timeline):
    folder = parquet.write_tables(found, tmp_path)
    rows = pl.read_parquet(folder / "Instruction.parquet")
    assert rows["pcore_idx"].to_list() == [0] * 8 + [1] * 8
    assert rows["id"].is_unique().all()
    summary = pl.read_parquet(folder / "Summary.parquet").to_dicts()[0]
    assert summary["total_time"] == pytest.approx(timeline.device_time_s)
    assert summary["cc_op_count"] is None


def test_an_empty_program_has_tables(kernel, tmp_path):
    timeline = kernel.timeline()
    empty = explorer_tables([timeline], summarize(timeline), "nothing")
    folder = parquet.write_tables(empty, tmp_path)
    assert len(pl.read_parquet(folder / "Instruction.parquet")) == 0


def test_without_the_library_the_error_names_the_extra(found, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "find_spec", lambda _: None)
    assert not parquet.is_available()
    with pytest.raises(BadInput, match="need pyarrow, which is not installed") as caught:
        parquet.write_tables(found, tmp_path / "none")
    assert "trnsim[parquet]" in caught.value.fix
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_made_is_named(found, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write .*parquet: Not a directory"):
        parquet.write_tables(found, tmp_path / "file" / "tables")


@pytest.mark.slow
def test_no_draft_is_left(found, tmp_path):
    parquet.write_tables(found, tmp_path)
    assert not list(tmp_path.glob(".*"))
