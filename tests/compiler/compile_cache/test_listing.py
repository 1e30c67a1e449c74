import sys

import pytest

from trnsim.compiler.compile_cache.listing import entries


def test_entries_are_folders_with_the_name_of_one(tmp_path):
    for name in ("MODULE_2+01234567", "MODULE_10+d41d8cd9", "MODULE_1", "other", "MODULE_1+XYZ"):
        (tmp_path / name).mkdir()
    (tmp_path / "MODULE_3+01234567").write_text("a file")
    names = [entry.folder.name for entry in entries(tmp_path)]
    assert names == ["MODULE_10+d41d8cd9", "MODULE_2+01234567"]


def test_no_folder_has_no_entries(tmp_path):
    assert entries(tmp_path / "none") == []
    (tmp_path / "file").write_text("")
    assert entries(tmp_path / "file") == []


def test_a_folder_that_cannot_be_read_has_no_entries(tmp_path):
    assert entries(tmp_path / ("x" * 300)) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_link_is_no_entry(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "MODULE_1+01234567").symlink_to(tmp_path / "elsewhere")
    assert entries(tmp_path / "cache") == []
