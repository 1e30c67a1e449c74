"""A cache on disk whose objects have other fields than the program reads."""

import json

import pytest

from trnsim import disk_cache


def spoil(folder, changes):
    """Give every stored object other fields, with a digest that is right."""
    for file in folder.glob("*/*.json"):
        content = json.dumps(changes(json.loads(file.read_text().partition("\n")[2])))
        file.write_text(f"{disk_cache._digest(content)}\n{content}")


OTHER_FIELDS = [
    pytest.param(lambda _: {}, id="no-fields"),
    pytest.param(lambda _: [1, 2], id="a-list"),
    pytest.param(lambda _: None, id="null"),
    pytest.param(lambda stored: dict([*stored.items()][1:]), id="one-fewer"),
]
