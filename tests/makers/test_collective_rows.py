"""The file of published rows is what the fit and the fabric make today."""

import collective_rows
import pytest


@pytest.mark.slow
def test_the_file_is_up_to_date():
    assert collective_rows.FILE.read_text(encoding="utf-8") == collective_rows.text(), (
        "run docs/makers/collective_rows.py"
    )
