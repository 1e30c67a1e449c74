import re
import sys
from pathlib import Path

import pytest

from trnsim.compiler.compile_cache.settings import (
    cache_settings,
    compiler_version,
    default_folder,
    is_extracting,
)
from trnsim.errors import BadInput, NotModelled


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("NEURON_CC_FLAGS", "NEURON_COMPILE_CACHE_URL", "NEURON_EXTRACT_GRAPHS_ONLY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.skipif(sys.platform == "win32", reason="a folder of Linux and macOS")
def test_the_default_is_awss():
    settings = cache_settings()
    assert settings.folder == Path("/var/tmp/neuron-compile-cache")  # noqa: S108  where AWS's is
    assert settings.folder == Path(default_folder())
    assert (settings.origin, settings.retries_failed) == ("the default", False)


def test_cache_dir_wins_over_the_variable_and_an_argument_over_both(environment, tmp_path):
    environment.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "url"))
    assert cache_settings().folder == tmp_path / "url"
    environment.setenv("NEURON_CC_FLAGS", f"-O1 --cache_dir={tmp_path / 'dir'} --log_level=INFO")
    assert cache_settings().folder == tmp_path / "dir"
    assert cache_settings().origin == "--cache_dir in NEURON_CC_FLAGS"
    assert cache_settings(str(tmp_path / "own")).folder == tmp_path / "own"


def test_the_version_of_the_folder_is_one_of_trnsims_own(tmp_path):
    version = cache_settings(tmp_path.as_uri()).version_folder
    assert version == tmp_path / f"neuronxcc-{compiler_version()}"
    assert re.fullmatch(r"2\.27\+trnsim[\d.]+\.[0-9a-f]{8}", compiler_version())


def test_flags_turn_the_cache_off_and_ask_for_another_try(environment):
    environment.setenv("NEURON_CC_FLAGS", "--no_cache --retry_failed_compilation")
    settings = cache_settings()
    assert settings.folder is None
    assert settings.version_folder is None
    assert settings.retries_failed


@pytest.mark.parametrize("address", ["s3://b/c", "S3://b/c"])
def test_s3_is_refused_by_name(address):
    with pytest.raises(NotModelled, match=rf"^--cache-url is {address}: no cache of trnsim is in"):
        cache_settings(address)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder of Linux and macOS")
@pytest.mark.parametrize("start", ["file://", "file:", "file://localhost", "FILE://", "file:///"])
def test_addresses_of_files_name_folders(start):
    assert cache_settings(f"{start}/a%20b/c").folder == Path("/a b/c")
    assert cache_settings("/a%20b/c").folder == Path("/a%20b/c")


@pytest.mark.skipif(sys.platform == "win32", reason="a folder of Linux and macOS")
def test_a_tilde_is_the_home_folder(environment, tmp_path):
    environment.setenv("HOME", str(tmp_path))
    environment.setenv("NEURON_CC_FLAGS", "--cache_dir=~/cache")
    assert cache_settings().folder == tmp_path / "cache"
    assert cache_settings("file:///~/cache").folder == Path("/~/cache")
    with pytest.raises(
        BadInput, match="'~nobody-here/x', and that user's home folder is not known"
    ):
        cache_settings("~nobody-here/x")


@pytest.mark.skipif(sys.platform == "win32", reason="a name of Linux and macOS")
def test_a_name_that_no_folder_can_have_is_refused():
    with pytest.raises(BadInput, match=r"^--cache-url is /x{98}\S*: File name too long") as found:
        cache_settings("/" + "x" * 5000)
    assert len(found.value.reason) < 200


@pytest.mark.parametrize(
    "address",
    ["http://host/x", "gs://b", "a\0b", "file://", "file://cache", "file://host/a", "file:cache"],
)
def test_an_address_of_another_kind_is_refused(address):
    with pytest.raises(BadInput, match="legal: a folder, or its address file:///FOLDER"):
        cache_settings(address)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder of Linux and macOS")
def test_the_fix_of_an_address_holds_wherever_it_stands(environment):
    environment.setenv("NEURON_CC_FLAGS", "--cache_dir=http://host/x")
    with pytest.raises(BadInput, match="--cache_dir in NEURON_CC_FLAGS is 'http") as caught:
        cache_settings()
    assert caught.value.fix == "name a folder, such as /var/tmp/neuron-compile-cache"


def test_a_file_is_no_cache(environment, tmp_path):
    (tmp_path / "file").write_text("x")
    environment.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "file"))
    with pytest.raises(BadInput, match=r"NEURON_COMPILE_CACHE_URL is .*file, which is a file"):
        cache_settings()


@pytest.mark.parametrize(("value", "expected"), [("", False), ("0", False), ("1", True)])
def test_extraction_is_asked_for_by_its_variable(environment, value, expected):
    environment.setenv("NEURON_EXTRACT_GRAPHS_ONLY", value)
    assert is_extracting() is expected
