"""The pages of docs that are made from the source are what the source makes today."""

import re
from pathlib import Path

import pytest
from pages import DOCS, GENERATED, MAKERS, instructions, made


@pytest.mark.slow_cases("accuracy-collectives.md")
@pytest.mark.parametrize("name", [*instructions(), *MAKERS])
def test_a_page_is_what_the_source_makes_of_it(name):
    assert (GENERATED / name).read_text(encoding="utf-8") == made(name), "run `make docs`"


def test_there_is_no_page_of_an_instruction_that_is_gone():
    assert {path.name for path in (GENERATED / "isa").iterdir()} == {
        Path(name).name for name in instructions()
    }


def test_a_link_between_pages_leads_somewhere():
    for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", ["reading-guide.md", "runs.md"])
def test_a_page_names_files_that_exist(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    named = re.findall(r"[` ]((?:src|tests|bench|examples|docs)/[\w/.-]+)[` ]", text)
    assert len(named) > 20
    for name in named:
        assert (DOCS.parent / name).exists(), name
