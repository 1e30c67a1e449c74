from os.path import relpath

import pytest

from trnsim.compiler.compile_cache import CacheEntry
from trnsim.compiler.stand_in import StandIn
from trnsim.errors import BadInput, NotModelled
from trnsim.jax.by_name.libneuronxla.neuron_cc_cache import (
    CacheUrl,
    CompileCache,
    CompileCacheFs,
    CompileCacheS3,
    create_compile_cache,
)

PROGRAM = StandIn("trn2", 2, (), "v", "hlo", b"g", {}).serialized()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("NEURON_CC_FLAGS", raising=False)
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    return create_compile_cache(CacheUrl.get_cache_url())


def test_an_address_is_that_of_the_argument_or_the_environment(cache, tmp_path):
    assert isinstance(cache, CompileCacheFs)
    assert isinstance(cache, CompileCache)
    assert cache.cache_path == cache.cache_url.cache_path == str(tmp_path / "cache")
    assert CacheUrl.get_cache_url(cache_dir=str(tmp_path)).cache_path == str(tmp_path)
    assert not CacheUrl("x", url_type="fs").is_s3()


def test_a_cache_in_s3_is_refused_where_it_is_made():
    url = CacheUrl.get_cache_url("s3://bucket/x")
    assert url.is_s3()
    for make in (create_compile_cache, CompileCacheS3):
        with pytest.raises(NotModelled, match=r"^s3://bucket/x: no cache of trnsim is in S3"):
            make(url)


def test_graphs_are_listed_by_what_is_known_of_them(cache):
    folders = [cache.get_cache_dir(str(number), "-O1") for number in range(4)]
    waiting, locked, done, failed = (CacheEntry(cache._version_folder / each) for each in folders)
    for entry in (waiting, locked, done, failed):
        entry.store_graph(b"g", [])
    done.store_program(PROGRAM)
    failed.store_failure("no")
    assert cache.hlo_acquire_lock(str(locked.graph_file))
    assert not cache.hlo_acquire_lock(str(locked.graph_file))
    expected = tuple([str(each.graph_file)] for each in (waiting, locked, done, failed))
    assert cache.get_hlos() == expected
    cache.clean()
    assert locked.graph_file.is_file()
    cache.hlo_release_lock(str(locked.graph_file))
    cache.clean()
    assert cache.get_hlos() == ([], [], [], [])


def test_a_lock_of_no_folder_is_refused(cache, tmp_path):
    with pytest.raises(BadInput, match=r"cannot lock .*none: No such file or directory; legal: "):
        cache.hlo_acquire_lock(str(tmp_path / "none" / "model.hlo_module.pb"))
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"cannot lock .*file: Not a directory"):
        cache.hlo_acquire_lock(str(tmp_path / "file" / "model.hlo_module.pb"))


def test_a_folder_that_cannot_be_copied_is_refused(cache, tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").touch()
    (tmp_path / "file").touch()
    for copy in (
        lambda: cache.download_folder(str(tmp_path / "from"), str(tmp_path / "file")),
        lambda: cache.upload_folder(str(tmp_path / "file"), str(tmp_path / "from")),
    ):
        with pytest.raises(BadInput, match=r"cannot copy .*from to .*file: "):
            copy()


def test_files_go_in_and_out(cache, tmp_path):
    folder = cache.get_cache_dir_with_cache_key("registry/training")
    cache.upload_string_to_file(f"{folder}/a.json", "{}")
    assert cache.exists(f"{folder}/a.json")
    assert cache.download_file_to_string(f"{folder}/a.json") == "{}"
    assert cache.download_file_to_string(f"{folder}/a.json", 1) == "{"
    cache.download_file(f"{folder}/a.json", str(tmp_path / "b.json"))
    cache.upload_file(f"{folder}/c.json", str(tmp_path / "b.json"))
    assert cache.download_folder(folder, str(tmp_path / "out"))
    assert not cache.download_folder(f"{folder}/none", str(tmp_path / "none"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.json", "c.json"]
    cache.upload_folder(f"{folder}/d", str(tmp_path / "out"))
    cache.remove(f"{folder}/d/a.json")
    assert not cache.exists(f"{folder}/d/a.json")
    with pytest.raises(BadInput, match="none is no folder"):
        cache.upload_folder(f"{folder}/d", str(tmp_path / "none"))


def test_nothing_outside_the_cache_is_named_or_removed(cache, tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(BadInput, match="does not lie in the cache"):
        cache.remove(str(tmp_path / "mine"))
    (tmp_path / "link").symlink_to(cache.cache_path)
    out = f"{cache.cache_path}/{relpath(tmp_path / 'mine', cache.cache_path)}"
    for path in (out, f"{cache.cache_path}/..", cache.cache_path):
        with pytest.raises(BadInput, match="does not lie in the cache"):
            cache.remove(path)
    assert (tmp_path / "mine").exists()
    cache.upload_string_to_file(f"{cache.cache_path}/a.json", "{}")
    cache.remove(str(tmp_path / "link" / "a.json"))
    assert not cache.exists(f"{cache.cache_path}/a.json")
    for key in ("../../x", "/etc"):
        with pytest.raises(BadInput, match="leads out of the cache"):
            cache.get_cache_dir_with_cache_key(key)
    with pytest.raises(BadInput, match="cache_key="):
        cache.get_cache_dir("../x", "")


def test_locks_that_nobody_holds_are_cleared(cache):
    entry = CacheEntry(cache._version_folder / "MODULE_1+01234567")
    entry.store_graph(b"g", [])
    entry.lock_file.write_text("1\n")
    cache.clear_locks()
    assert not entry.lock_file.exists()
