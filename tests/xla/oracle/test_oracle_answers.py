"""Programs answer as with the real torch_xla 2.9.0 on its CPU, but for a table of differences.

The real package's answers are stored by store_answers.py.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names

from comparing import MODULES, differences, own_answers, rows_of, stored, table


@pytest.mark.parametrize("module", MODULES)
def test_programs_answer_as_with_the_real_package(module):
    rows, real = table(), stored(module)
    ours = own_answers(module)
    assert ours.keys() == real.keys(), "run store_answers.py"
    unlisted, met = [], set()
    for name, answer in ours.items():
        for field, (own, theirs) in differences(answer, real[name]).items():
            listed = rows_of(rows, f"{module}.{name}", field)
            met.update((f"{module}.{name}", row["reason"]) for row in listed)
            if not listed:
                message = answer.get("message", "")
                unlisted.append(f"{name}.{field}: ours {own!r}, real {theirs!r} {message}")
    assert unlisted == [], "\n".join(unlisted)
    for row in rows:
        for pattern in row["programs"]:
            if "*" not in pattern and pattern.partition(".")[0] == module:
                assert (pattern, row["reason"]) in met, f"{pattern} differs no more"


def test_every_row_of_the_table_says_why():
    for row in table():
        assert row["reason"].strip()
        assert row["programs"]
        assert row["fields"]
