"""Modules that tests of pages share, and one assessment for all of them."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent, HERE.parents[1] / "profile" / "report_page"):
    sys.path.append(str(folder))


@pytest.fixture(scope="session")
def assessed(shortest):
    """From short runs: a page is looked at for how its numbers belong together."""
    import page_cases  # noqa: PLC0415  it lies beside this file

    with pytest.MonkeyPatch.context() as patch:
        shortest(patch)
        return page_cases.assessed()
