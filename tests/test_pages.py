"""The pages of docs that are made from the source are what the source makes today."""

import re
from pathlib import Path

import pytest
from pages import DOCS, MAKERS, instructions, made


@pytest.mark.slow_cases("accuracy-collectives.md")
@pytest.mark.parametrize("name", [*instructions(), *MAKERS])
def test_a_page_is_what_the_source_makes_of_it(name):
    assert (DOCS / name).read_text(encoding="utf-8") == made(name), "run `make docs`"


def test_there_is_no_page_of_an_instruction_that_is_gone():
    assert {path.name for path in (DOCS / "isa").iterdir()} == {
        Path(name).name for name in instructions()
    }


def test_a_link_between_pages_leads_somewhere():
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_reading_guide_names_files_that_exist():
    guide = (DOCS / "reading-guide.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|examples|docs)/[\w/.-]+)`", guide)
    assert len(named) > 20
    for name in named:
        assert (DOCS.parent / name).exists(), name
