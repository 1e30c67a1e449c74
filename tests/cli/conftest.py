"""Every answer that a test of a command prints or writes is legal by the schema that it names."""

import pytest
from schema_checks import assert_legal

import trnsim.document.values


@pytest.fixture(autouse=True)
def _legal_answers(monkeypatch):
    told = trnsim.document.values.told

    def checked(values, name):
        made = trnsim.document.values.plain(told(values, name))
        if name:
            assert_legal(made, name)
        return made

    monkeypatch.setattr(trnsim.document.values, "told", checked)
    monkeypatch.setattr("trnsim.decide.decision.told", checked)
