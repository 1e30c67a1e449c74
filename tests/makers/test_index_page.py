"""What a package index shows: links that lead somewhere, and URLs of one setting."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

index_page = pytest.importorskip("index_page", reason="hatchling builds the wheel")

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "https://github.com/somebody/trnsim"
SETTING = 'path = "docs/makers/index_page.py"\n'


def metadata(folder, line):
    """What hatchling says of the package, with a line more in the table of the hook."""
    for name in ("README.md", "LICENSE", SETTING.split('"')[1]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(text.replace(SETTING, SETTING + line), encoding="utf-8")
    asking = "from hatchling.cli import hatchling; hatchling()"
    command = [sys.executable, "-c", asking, "metadata"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_relative_link_is_of_the_versions_tag_and_others_stay():
    text = "[a](docs/a.md) [b](https://b.org/x) [c](#c) [two\nwords](docs/d.md#part)"
    assert index_page.absolute(text, REPOSITORY, "0.1.0") == (
        f"[a]({REPOSITORY}/blob/v0.1.0/docs/a.md) [b](https://b.org/x) [c](#c) "
        f"[two\nwords]({REPOSITORY}/blob/v0.1.0/docs/d.md#part)"
    )


def test_code_is_as_it_was():
    text = "[a](b.md)\n```python\nrows[x](y)\n```\n[c](d.md)\n```sh\n[e](f)\n```\n"
    assert index_page.absolute(text, "", "1") == (
        "a\n```python\nrows[x](y)\n```\nc\n```sh\n[e](f)\n```\n"
    )


@pytest.mark.parametrize("repository", ["", REPOSITORY])
def test_no_link_of_readme_is_relative(repository):
    made = index_page.absolute(README, repository, "0.1.0")
    assert re.findall(r"\]\((?!https)[^)]*\)", made) == []
    assert ("docs/tutorial-profile.md)" in made) == bool(repository)


@pytest.mark.parametrize("repository", [REPOSITORY, f"{REPOSITORY}/", "https://a.b/c/d/e"])
def test_an_address_of_a_repository_is_one(repository):
    assert index_page.checked(repository) == repository.rstrip("/")


def test_without_the_setting_there_is_none():
    assert index_page.checked(None) == ""


@pytest.mark.parametrize(
    "repository",
    ["", 1, "github.com/a/b", "https://github.com/a", "https://a/b/c d", "ssh://a/b/c"],
)
def test_another_value_is_refused(repository):
    with pytest.raises(ValueError, match=r"^pyproject.toml: repository is .*; legal: the address"):
        index_page.checked(repository)


@pytest.mark.slow
def test_a_package_has_the_urls_of_the_setting(tmp_path):
    ran = metadata(tmp_path, f'repository = "{REPOSITORY}/"\n')
    fields = json.loads(ran.stdout)
    assert fields["urls"]["Issues"] == f"{REPOSITORY}/issues"
    assert fields["urls"]["Changelog"] == f"{REPOSITORY}/blob/v{fields['version']}/CHANGELOG.md"
    assert f"({REPOSITORY}/blob/v{fields['version']}/docs/limits.md)" in fields["readme"]["text"]


@pytest.mark.slow
def test_a_package_without_the_setting_has_no_urls(tmp_path):
    fields = json.loads(metadata(tmp_path, "").stdout)
    assert not fields.get("urls")
    assert "](docs" not in fields["readme"]["text"]


@pytest.mark.slow
def test_no_package_is_built_of_a_wrong_setting(tmp_path):
    ran = metadata(tmp_path, 'repository = "here"\n')
    assert ran.returncode != 0
    assert "pyproject.toml: repository is 'here'; legal:" in ran.stderr
