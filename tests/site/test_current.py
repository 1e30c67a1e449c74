import os
import subprocess
import sys

import pytest
from site_cases import write_site

from trnsim.errors import BadInput
from trnsim.site.current import (
    cache_key,
    cached,
    current,
    note_family,
    note_used,
    recorded_families,
    take_used,
    using,
    without,
)


@pytest.fixture(autouse=True)
def _apart(monkeypatch, tmp_path):
    monkeypatch.delenv("TRNSIM_SITE", raising=False)
    monkeypatch.chdir(tmp_path)


def test_there_is_none_without_a_file():
    assert current() is None


def test_it_is_found_in_the_working_directory_and_undone_by_deleting_it(tmp_path):
    path = write_site(tmp_path / "site.json")
    assert current().correction("trainium1", "decode").rows == 14
    path.unlink()
    assert current() is None


def test_a_file_of_that_name_of_another_program_is_left_alone(tmp_path):
    (tmp_path / "site.json").write_text('{"title": "my page"}')
    assert current() is None


def test_it_is_found_beside_the_program(tmp_path):
    (tmp_path / "there").mkdir()
    write_site(tmp_path / "there" / "site.json")
    program = tmp_path / "there" / "program.py"
    program.write_text("from trnsim.site import current\nprint(current().written)\n")
    ran = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ran.stdout == "2026-11-20\n"


def test_the_environment_names_another_or_none(monkeypatch, tmp_path):
    write_site(tmp_path / "site.json", factor=2.0)
    write_site(tmp_path / "other.json", factor=3.0)
    monkeypatch.setenv("TRNSIM_SITE", "other.json")
    assert current().correction("trainium1", "decode").factor("weights") == 3.0
    monkeypatch.setenv("TRNSIM_SITE", "")
    assert current() is None


def test_a_named_file_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("TRNSIM_SITE", "none.json")
    with pytest.raises(
        BadInput, match=r"TRNSIM_SITE is .*none\.json, which cannot be read: No such"
    ):
        current()


def test_a_file_that_was_written_again_is_read_again(tmp_path):
    path = write_site(tmp_path / "site.json", factor=2.0)
    assert current().correction("trainium1", "decode").factor("weights") == 2.0
    write_site(path, factor=2.5)
    assert current().correction("trainium1", "decode").factor("weights") == 2.5


def test_the_key_of_caches_differs_with_the_corrections(tmp_path):
    assert cache_key() == ""
    path = write_site(tmp_path / "site.json", factor=2.0)
    first = cache_key()
    assert first == cache_key()
    write_site(path, factor=2.5)
    assert "" != cache_key() != first


def test_a_block_is_without_it_and_so_are_its_processes(tmp_path):
    write_site(tmp_path / "site.json")
    with without():
        assert current() is None
        assert os.environ["TRNSIM_SITE"] == ""
    assert current() is not None
    assert "TRNSIM_SITE" not in os.environ


def test_a_record_within_another_of_the_same_families_ends_alone():
    with recorded_families() as outer:
        with recorded_families() as inner:
            pass
        note_family("trn2", "serving")
    note_family("trn2", "training")
    assert (outer, inner) == ({("trn2", "serving")}, set())


def test_families_that_are_asked_for_are_recorded():
    note_family("trainium1", "train")
    with recorded_families() as asked:
        note_family("trainium1", "decode")
    assert asked == {("trainium1", "decode")}


def test_what_was_used_is_told_once():
    take_used()
    note_used("yours, 2026-11-20, 14 rows")
    assert take_used() == ["yours, 2026-11-20, 14 rows"]
    assert take_used() == []


def test_a_result_from_memory_notes_its_corrections_and_is_of_its_site(tmp_path):
    calls = []

    @cached(maxsize=4)
    def estimate(name, factor=1):
        calls.append(name)
        note_used(f"yours, {name}")
        return factor * len(name)

    take_used()
    for _ in range(2):
        assert estimate("a time", factor=2) == 12
        assert take_used() == ["yours, a time"]
    assert calls == ["a time"]
    write_site(tmp_path / "site.json")
    assert estimate("a time", factor=2) == 12
    assert calls == ["a time"] * 2


def test_a_site_that_is_handed_over_counts_and_none_within_it(tmp_path):
    write_site(tmp_path / "site.json")
    site = current()
    (tmp_path / "site.json").unlink()
    with using(site):
        assert current() is site
        assert cache_key() == repr(site)
        with without():
            assert current() is None
        with using(None):
            assert current() is None
    assert current() is None


def test_a_folder_is_no_file_of_a_site(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_SITE", str(tmp_path))
    with pytest.raises(BadInput, match=r"^TRNSIM_SITE is .*, which is a folder; legal") as caught:
        current()
    assert caught.value.fix == f"TRNSIM_SITE={tmp_path / 'site.json'}"
