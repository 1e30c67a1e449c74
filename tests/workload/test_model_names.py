import json
import re
import shutil

import pytest

from trnsim.errors import BadInput
from trnsim.workload.captured import workload
from trnsim.workload.config import read
from trnsim.workload.model_names import (
    FOLDER,
    config_file,
    displayed,
    hub_id,
    model_name,
    named_file,
    shipped,
)
from trnsim.workload.resident import parameters

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """An empty cache of Hugging Face."""
    folder = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    return folder


def download(hub, identity, layers=2, revision=REVISION, branch="main"):
    """Put a Llama of some layers into a cache, as huggingface_hub does; its config.json."""
    folder = hub / f"models--{identity.replace('/', '--')}"
    file = folder / "snapshots" / revision / "config.json"
    file.parent.mkdir(parents=True)
    blob = folder / "blobs" / "config"
    blob.parent.mkdir(exist_ok=True)
    config = json.loads((FOLDER / "llama-3.1-8b.json").read_text())
    blob.write_text(json.dumps({**config, "num_hidden_layers": layers}))
    file.symlink_to(blob)
    if branch:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / branch).write_text(revision)
    return file


def test_files_and_rows_are_of_the_same_models():
    assert {path.stem for path in FOLDER.glob("*.json")} == {model.name for model in shipped()}
    assert 20 <= len(shipped()) <= 60


def test_no_name_stands_for_two_models():
    names = [name.casefold() for model in shipped() for name in {n.casefold() for n in model.names}]
    assert len(set(names)) == len(names)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("model", shipped(), ids=lambda model: model.name)
def test_a_model_has_its_published_number_of_parameters(model):
    assert parameters(read(model.file)) == pytest.approx(model.parameters, rel=0.01)
    assert len(model.where) > 10


@pytest.mark.parametrize("model", shipped(), ids=lambda model: model.name)
def test_a_file_that_ships_states_sizes_alone(model):
    text = model.file.read_text(encoding="utf-8")
    assert len(text) < 2500
    assert not re.search(r"token_id|torch_dtype|transformers_version|auto_map", text)
    assert workload(model.file).name == model.name


@pytest.mark.parametrize(
    "stated",
    [
        "llama-3.1-8b",
        "LLAMA-3.1-8B",
        "meta-llama/Llama-3.1-8B",
        "Llama-3.1-8B-Instruct",
        "meta-llama/meta-llama-3.1-8b-instruct",
    ],
)
def test_a_name_in_any_case_and_with_its_organisation_is_the_file_that_ships(stated):
    file = FOLDER / "llama-3.1-8b.json"
    assert config_file(stated) == named_file(stated) == file
    assert displayed(file) == model_name(file) == "llama-3.1-8b"
    assert hub_id(file) == "meta-llama/Llama-3.1-8B"


def test_a_path_that_exists_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "llama-3.1-8b"
    shutil.copy(FOLDER / "gpt2.json", mine)
    assert config_file("llama-3.1-8b").resolve() == mine
    folder = tmp_path / "gpt2"
    folder.mkdir()
    shutil.copy(FOLDER / "gpt2.json", folder / "config.json")
    assert config_file("gpt2").parts == ("gpt2", "config.json")
    (folder / "model_index.json").write_text("{}")
    assert config_file("gpt2").parts == ("gpt2",)


def test_a_downloaded_model_wins_by_its_full_id(hub):
    file = download(hub, "meta-llama/Llama-3.1-8B")
    assert config_file("meta-llama/llama-3.1-8b") == file
    assert read(file).decoder.depth == 2
    assert read(file).name == model_name(file) == "Llama-3.1-8B"
    assert displayed(file) == hub_id(file) == "meta-llama/Llama-3.1-8B"
    assert config_file("llama-3.1-8b") == FOLDER / "llama-3.1-8b.json"


def test_a_downloaded_model_that_does_not_ship_is_found(hub):
    file = download(hub, "someone/small.model-1")
    assert config_file("someone/small.model-1") == file
    with pytest.raises(BadInput, match=r"perhaps someone/small\.model-1"):
        config_file("someone/small.model")


def test_the_branch_main_decides_and_else_the_only_revision(hub):
    file = download(hub, "a/b")
    download(hub, "a/b", layers=3, revision="f" * 40, branch="next")
    assert config_file("a/b") == file
    (hub / "models--a--b" / "refs" / "main").unlink()
    with pytest.raises(BadInput, match="no such file"):
        config_file("a/b")
    assert config_file(str(download(hub, "c/d", branch=""))).is_file()
    assert config_file("c/d").is_file()


@pytest.mark.parametrize("revision", ["..", "../../..", "", "a b", "\N{BULLET}"])
def test_a_reference_leads_out_of_no_folder(hub, revision):
    download(hub, "a/b", branch="")
    refs = hub / "models--a--b" / "refs"
    refs.mkdir()
    (refs / "main").write_text(revision)
    (hub / "models--a--b" / "config.json").write_text("{}")
    assert config_file("a/b").parent.name == REVISION


def test_the_cache_lies_where_hugging_face_says(tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = download(tmp_path / ".cache" / "huggingface" / "hub", "a/b")
    assert config_file("a/b") == file
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    file = download(tmp_path / "other" / "huggingface" / "hub", "c/d")
    assert config_file("c/d") == file
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    file = download(tmp_path / "home" / "hub", "e/f")
    assert config_file("e/f") == file
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    assert named_file("e/f") is None


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("llama-3.1-9b", r"^llama-3\.1-9b: no such file, .*\n  fix: perhaps Llama-3\.1-8B or"),
        ("gpt-2", r"perhaps gpt2 or gpt2-xl"),
        ("qwerty", r"fix: trnsim models lists the names; else give the path of a config\.json"),
        ("a" * 5000, "no such file"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(stated, message):
    with pytest.raises(BadInput, match=message):
        config_file(stated)


@pytest.mark.parametrize("stated", ["none.json", "./none", "a/b/c", "none.pt2", "a b", "a\0b"])
def test_what_is_no_name_stays_a_path(stated):
    assert str(config_file(stated)) == stated.removeprefix("./")


def test_another_file_has_no_id(tmp_path):
    assert hub_id(tmp_path / "config.json") == ""
    assert displayed(tmp_path / "config.json") == str(tmp_path / "config.json")
    assert model_name("x/mine.json") == "mine"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a-model/config.json", "a-model"),
        ("a-model/other.json", "other"),
        ("config/config.json", "config"),
        ("config.json", "here"),
        ("/config.json", "config"),
    ],
)
def test_a_file_outside_the_cache_has_the_name_of_its_folder_or_its_own(
    tmp_path, monkeypatch, file, name
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert model_name(file) == name
