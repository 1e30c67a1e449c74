from dataclasses import fields

import pytest

from trnsim.errors import BadInput
from trnsim.system.serve.options import FLAGS, ServerOptions


def test_every_number_has_the_option_that_errors_name():
    switches = {"has_prefix_cache", "is_chunked", "draft"}
    assert {one.name for one in fields(ServerOptions)} == set(FLAGS) | switches


@pytest.mark.parametrize("name", ["tensor", "pipeline", "replicas", "block_tokens", "expert"])
def test_nothing_is_split_into_no_parts(name):
    assert ServerOptions(**{name: 1})
    with pytest.raises(BadInput, match=rf"^{FLAGS[name]} is 0; legal: whole numbers from 1 on"):
        ServerOptions(**{name: 0})


def test_without_stages_there_is_one():
    assert ServerOptions().stages == 1
    assert ServerOptions(pipeline=3).stages == 3
