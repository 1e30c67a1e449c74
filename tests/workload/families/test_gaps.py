import re

import pytest

from trnsim.errors import NotModelled
from trnsim.workload.config import FAMILIES, from_config
from trnsim.workload.families.gaps import GAPS


def refused(model_type, **given):
    with pytest.raises(NotModelled) as caught:
        from_config({"model_type": model_type, **given}, "mine.json")
    return caught.value


def test_no_architecture_has_both_a_formula_and_a_gap():
    assert not GAPS.keys() & FAMILIES.keys()


@pytest.mark.parametrize("model_type", GAPS)
def test_what_no_formula_covers_is_said(model_type):
    gap = GAPS[model_type]
    start = f"mine.json: model_type {model_type!r} is not modelled: {gap.reason}; legal: albert, "
    error = refused(model_type, auto_map={"AutoModel": "x.y"})
    assert re.match(re.escape(start), str(error))
    assert error.fix == (gap.fix or "write the model_type, of these, whose layers the model has")


def test_texts_that_are_known_are_named():
    error = refused("idefics", text_config={"model_type": "mistral"}, vision_config={})
    assert error.fix.startswith("its texts are known (mistral): write its text_config as a")


@pytest.mark.parametrize(
    ("model_type", "named"), [("deepseek_v32", "deepseek_v3"), ("phi4mm", "phi3")]
)
def test_a_model_that_answers_in_part_is_one_that_is_known(model_type, named):
    assert named in FAMILIES
    assert f"write {named}; " in refused(model_type).fix
