import sys

import pytest

from trnsim.compiler.compile_cache import CacheEntry, CacheSettings
from trnsim.compiler.compile_cache.lock import held_lock
from trnsim.errors import BadInput
from trnsim.tools.neuron_parallel_compile.maintenance import clean, clear_locks


@pytest.fixture
def settings(tmp_path):
    settings = CacheSettings(tmp_path)
    for number in (1, 2):
        entry = CacheEntry(settings.version_folder / f"MODULE_{number}+01234567")
        entry.store_graph(b"x", [])
    return settings


def entry(settings, number):
    return CacheEntry(settings.version_folder / f"MODULE_{number}+01234567")


def test_clean_removes_what_the_cache_wrote_and_nothing_else(settings, tmp_path):
    (tmp_path / "neuronxcc-2.20.0").mkdir()  # of AWS's compiler
    (entry(settings, 1).folder / ".trnsim-12ab.tmp").write_bytes(b"unfinished")
    (entry(settings, 2).folder / "notes.txt").write_text("mine")
    assert clean(settings) == (2, [])
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["notes.txt"]
    assert (tmp_path / "neuronxcc-2.20.0").is_dir()
    assert not entry(settings, 1).folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_clean_follows_no_link(settings, tmp_path):
    target = tmp_path / "precious"
    target.write_text("x")
    entry(settings, 1).program_file.symlink_to(target)
    clean(settings)
    assert target.read_text() == "x"


def test_what_is_in_use_stays(settings):
    with held_lock(entry(settings, 1).lock_file):
        assert clean(settings) == (1, [entry(settings, 1).folder])
        assert clear_locks(settings) == (0, [entry(settings, 1).lock_file])
    assert entry(settings, 1).graph() == b"x"


def test_locks_that_nobody_holds_are_removed(settings):
    entry(settings, 2).lock_file.write_text("99999999\n")
    assert clear_locks(settings) == (1, [])
    assert not entry(settings, 2).lock_file.exists()
    assert clear_locks(settings) == (0, [])


@pytest.mark.parametrize("act", [clean, clear_locks])
def test_a_cache_that_is_off_is_named(act):
    with pytest.raises(BadInput, match="the cache is turned off by --no_cache"):
        act(CacheSettings(None))
