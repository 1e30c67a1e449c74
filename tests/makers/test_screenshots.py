"""The images of tutorials: each is made by its program, small, and shown by a page."""

import re
import shutil
from pathlib import Path

import pytest
import screenshots

DOCS = Path(__file__).parents[2] / "docs"
STORED = sorted(screenshots.IMAGES.iterdir())


def test_each_image_has_its_program_and_each_program_its_image():
    assert {file.stem for file in STORED} == set(screenshots.SCREENSHOTS)
    assert len(STORED) <= 10


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_an_image_is_small_and_shown_with_words_for_those_who_cannot_see_it(file):
    assert 5_000 < file.stat().st_size < screenshots.BYTES_MAX
    assert file.read_bytes()[8:12] == b"WEBP"
    shown = [
        words
        for page in DOCS.glob("*.md")
        for words, name in re.findall(r"!\[([^\]]*)\]\((\S+)\)", page.read_text(encoding="utf-8"))
        if name == f"images/{file.name}"
    ]
    assert len(shown) == 1
    assert len(shown[0]) > 20


@pytest.mark.slow
def test_a_command_that_writes_no_page_is_named(tmp_path):
    shot = screenshots.Screenshot("plan train no-such", "page.html")
    with pytest.raises(RuntimeError, match=r"^trnsim plan train no-such: no page.html\n.*error:"):
        screenshots.taken(shot, tmp_path / "x.webp")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH")
def test_an_image_is_made_of_a_run(tmp_path):
    screenshots.taken(screenshots.SCREENSHOTS["job"], tmp_path / "x.webp")
    assert (tmp_path / "x.webp").read_bytes()[8:12] == b"WEBP"
