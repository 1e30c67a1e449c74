"""Scenarios made of YAML."""

import pytest

from trnsim.system.fleet.reading import read

FLEET = """\
name: small
timezone: UTC
start: 2026-03-02
days: 1
fleet:
  instance: trn2.48xlarge
  ultraserver_chips: 64
  buildings: 2
  ultraservers: 10
  spares: 0
  chip_mtbf_hours: 1e12
  usd_per_chip_hour: 1
"""
CHAT = """\
services:
  chat:
    replica_chips: 64
    requests_per_s: 10
    demand: {peak_requests_per_s: 90}
"""
JOB = """\
jobs:
  big:
    smallest_chips: 64
    largest_chips: 640
    tokens_per_s: {64: 1e3, 640: 1e4}
    checkpoint_s: 0
    recovery_s: 0
    straggler_spread: 0
"""


@pytest.fixture
def yaml_of(tmp_path):
    """The file of a scenario: the small one with pieces of text replaced."""

    def write(replaced=None, text=FLEET + CHAT + JOB):
        for old, new in (replaced or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "a.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def scenario_of(yaml_of):
    """A scenario: the small one with pieces of text replaced."""

    def made(replaced=None):
        return read(yaml_of(replaced))

    return made
