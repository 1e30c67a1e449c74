from dataclasses import fields

import pytest

from trnsim.errors import BadInput
from trnsim.system.serve.options import FLAGS, Options


def test_every_number_has_the_option_that_errors_name():
    switches = {"has_prefix_cache", "is_chunked", "draft"}
    assert {one.name for one in fields(Options)} == set(FLAGS) | switches


@pytest.mark.parametrize("name", ["tensor", "pipeline", "replicas", "block_tokens", "expert"])
def test_nothing_is_split_into_no_parts(name):
    assert Options(**{name: 1})
    with pytest.raises(BadInput, match=rf"^{FLAGS[name]} is 0; legal: whole numbers from 1 on"):
        Options(**{name: 0})


def test_without_stages_there_is_one():
    assert Options().stages == 1
    assert Options(pipeline=3).stages == 3
