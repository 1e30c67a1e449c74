"""The site of the documentation: every page is on it, and no link of it is broken."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import site_pages
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
REPOSITORY = "https://github.com/somebody/trnsim"


def leaves(nav):
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from leaves(value) if isinstance(value, list) else [value]


def test_every_page_stands_once_in_the_navigation():
    named = list(leaves(site_pages.expanded(SETTINGS["nav"], DOCS)))
    written = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")}
    assert len(named) == len(set(named))
    assert set(named) == written | set(site_pages.PAGES.values())


def test_a_folder_is_listed_by_its_pages_titles_the_index_first(tmp_path):
    (tmp_path / "a").mkdir()
    for name, text in (("z", "# A `b` c\n"), ("index", "text\n\n# All\n"), ("b", "none")):
        (tmp_path / "a" / f"{name}.md").write_text(text)
    assert site_pages.expanded([{"In": "a/*"}, "x.md"], tmp_path) == [
        {"In": [{"All": "a/index.md"}, {"b": "a/b.md"}, {"A b c": "a/z.md"}]},
        "x.md",
    ]


@pytest.mark.parametrize(
    ("text", "page", "shown"),
    [
        ("[a](docs/limits.md#kernels)", "README.md", "[a](limits.md#kernels)"),
        ("[a](docs/generated/isa/index.md)", "README.md", "[a](generated/isa/index.md)"),
        ("[a](CONTRIBUTING.md)", "README.md", "[a](contributing.md)"),
        ("[a](../accuracy.md)", "docs/generated/isa/x.md", "[a](../accuracy.md)"),
        ("[a](../README.md)", "docs/limits.md", "[a](index.md)"),
        ("![a](images/x.webp)", "docs/limits.md", "![a](images/x.webp)"),
        ("[`a`](../examples/x.py)", "docs/limits.md", f"[`a`]({REPOSITORY}/blob/v1/examples/x.py)"),
        ("[a](../makers/x.py)", "docs/design/1.md", f"[a]({REPOSITORY}/blob/v1/docs/makers/x.py)"),
        ("[a](https://b.org) [c](#d)", "docs/limits.md", "[a](https://b.org) [c](#d)"),
    ],
)
def test_a_link_leads_to_a_page_or_into_the_repository(text, page, shown):
    assert site_pages.relinked(text, page, REPOSITORY, "1") == shown


def test_without_a_repository_a_link_out_of_docs_is_its_words():
    assert site_pages.relinked("see [x.py](../examples/x.py)", "docs/a.md", "", "1") == "see x.py"


def test_nested_lists_are_indented_by_four_a_level():
    text = "- a\n  - b\n    - c\n      d\n1. e\n   - f\n   text\n"
    assert site_pages.indented(text) == (
        "- a\n    - b\n        - c\n      d\n1. e\n    - f\n   text\n"
    )


def test_code_stays_as_it_is():
    text = "a\n```sh\n  - b [c](d)\n```\ne\n"
    assert site_pages.outside_code(text, str.upper) == "A\n```sh\n  - b [c](d)\n```\nE\n"


def test_the_setting_is_that_of_the_package(tmp_path):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    head = "[tool.hatch.metadata.hooks.custom]\n"
    (tmp_path / "pyproject.toml").write_text(
        text.replace(head, f'{head}repository = "{REPOSITORY}/"\n'), encoding="utf-8"
    )
    version = re.search(r'^version = "(.*)"$', text, re.MULTILINE)[1]
    assert site_pages.setting(tmp_path) == (REPOSITORY, version)


class Links(HTMLParser):
    """The targets and the anchors of a page."""

    def __init__(self):
        super().__init__()
        self.targets, self.anchors = [], set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag in ("a", "link", "script", "img") and (values.get("href") or values.get("src")):
            self.targets.append(values.get("href") or values["src"])


@pytest.fixture(scope="module")
def python():
    made = ROOT / ".venv-site" / "bin" / "python"
    if not made.exists():
        pytest.skip("make .venv-site/.made makes it, with mkdocs-material")
    return made


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_no_link_of_it_is_broken(python, tmp_path):
    command = [python, "docs/makers/site_pages.py", "--site-dir", tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    pages = {file: Links() for file in tmp_path.rglob("*.html")}
    for file, links in pages.items():
        links.feed(file.read_text(encoding="utf-8"))
    assert len(pages) > 150
    broken = []
    for file, links in pages.items():
        for target in links.targets:
            path, _, anchor = unquote(target).partition("#")
            if path.startswith(("https:", "mailto:")) or file.name == "404.html":
                continue
            found = (file.parent / path).resolve() if path else file
            known = pages.get(found)
            if not found.exists() or (anchor and known and anchor not in known.anchors):
                broken.append(f"{file.relative_to(tmp_path)}: {target}")
    assert broken == []
    loaded = [target for links in pages.values() for target in links.targets if "//" in target]
    assert not [target for target in loaded if target.endswith((".js", ".css"))]


@pytest.mark.slow
def test_a_broken_link_fails_the_build(python, tmp_path):
    for name in ("docs", "mkdocs.yml", "pyproject.toml", *site_pages.PAGES):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    page = tmp_path / "docs" / "limits.md"
    page.write_text(page.read_text() + "\n[gone](gone.md) [part](runs.md#gone)\n")
    command = [python, "docs/makers/site_pages.py"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode != 0
    assert "'gone.md'" in ran.stdout + ran.stderr
    assert "'runs.md#gone'" in ran.stdout + ran.stderr


def test_the_program_is_listed_among_runs():
    runs = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    assert f"docs/makers/{Path(site_pages.__file__).name}" in runs
    assert sys.modules["site"].__file__ != site_pages.__file__  # Python has a module of that name
