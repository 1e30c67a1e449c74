"""Every answer that a test of a command prints or writes is legal by the schema that it names."""

import sys
from pathlib import Path

import pytest
from schema_checks import assert_legal

import trnsim.document.values

sys.path.append(str(Path(__file__).parent))  # for modules beside these tests
sys.path.append(str(Path(__file__).parents[1] / "site"))  # and for files of sites


@pytest.fixture(autouse=True)
def _legal_answers(monkeypatch):
    with_schema = trnsim.document.values.with_schema

    def checked(values, name):
        answer = trnsim.document.values.plain(with_schema(values, name))
        if name:
            assert_legal(answer, name)
        return answer

    monkeypatch.setattr(trnsim.document.values, "with_schema", checked)
    monkeypatch.setattr("trnsim.decide.decision.with_schema", checked)
