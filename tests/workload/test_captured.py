import json
import re
from dataclasses import replace
from importlib.util import find_spec

import pytest
from published_models import COUNTS, VIT, llama

from trnsim.errors import BadInput, NotModelled
from trnsim.workload import captured, passes
from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import CapturedModel, summaries_of, workload, workload_of
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.resident import parameters

MAMBA = {"model_type": "mamba", "hidden_size": 32, "max_position_embeddings": 50}
UNET = {"_class_name": "UNet2DConditionModel", "sample_size": 64}
ENCODE = Pass(Phase.ENCODE, 1, 8)


def test_a_formula_answers_where_sizes_are_known():
    config, published = COUNTS["gpt2"]
    found = workload_of(config, "mine.json")
    assert isinstance(found, Architecture)
    assert parameters(found) == published
    assert summaries_of(found, ENCODE) == passes.summaries(found, ENCODE)


@pytest.mark.parametrize(("config", "kind"), [(MAMBA, "mamba"), (UNET, "UNet2DConditionModel")])
def test_any_other_model_is_captured(tmp_path, config, kind):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = workload(path)
    assert isinstance(found, CapturedModel)
    assert (found.name, found.model_type) == (tmp_path.name, kind)
    assert hash(found) == hash(workload(path))


def test_what_the_file_says_is_known_without_building():
    found = workload_of({**MAMBA, "torch_dtype": "float32"}, "mine.json")
    assert found.max_positions == 50
    found.check_length(50)
    with pytest.raises(BadInput, match=r"^a sequence of 51 tokens exceeds max_position_embeddings"):
        found.check_length(51)
    assert found.dtype == "float32"
    assert workload_of(UNET, "mine.json").max_positions == 0


def test_a_model_is_built_in_the_dtype_of_its_file():
    assert workload_of({**MAMBA, "dtype": "float16"}, "mine.json").dtype == "float16"
    assert workload_of(MAMBA, "mine.json").dtype == "bfloat16"


def test_without_the_packages_the_error_names_the_extra(monkeypatch):
    missing = {"torch", "transformers", "diffusers"}
    monkeypatch.setattr(
        captured, "find_spec", lambda name: None if name in missing else find_spec(name)
    )
    message = (
        "mine.json: no formula is known for 'mamba', so its model is built and read, which needs "
        "torch and transformers; formulas: albert, apertus, "
    )
    with pytest.raises(BadInput, match="^" + re.escape(message)) as error:
        summaries_of(workload_of(MAMBA, "mine.json"), ENCODE)
    assert error.value.fix == "pip install 'trnsim[torch,models]'"
    with pytest.raises(BadInput, match="which needs torch and diffusers; ") as error:
        _ = workload_of(UNET, "mine.json").parameters
    assert error.value.fix == "pip install 'trnsim[torch,models]' diffusers"


@pytest.mark.parametrize("axis", ["expert", "context"])
def test_a_graph_is_split_over_tensor_ranks_alone(axis):
    with pytest.raises(NotModelled, match=f"{axis} ranks of mamba, whose graph is captured; leg"):
        summaries_of(workload_of(MAMBA, "mine.json"), ENCODE, Split(**{axis: 2}))


def test_what_cannot_be_is_refused_before_anything_is_built():
    for config in ({}, {"model_type": ""}, {"model_type": None}):
        with pytest.raises(BadInput, match=r"mine\.json: no model_type"):
            workload_of(config, "mine.json")
    with pytest.raises(BadInput, match="auto_map is"):
        workload_of({"model_type": "mine", "auto_map": {"AutoModel": "a.B"}}, "mine.json")
    with pytest.raises(BadInput, match=r"model_type is 7; legal: text"):
        workload_of({"model_type": 7}, "mine.json")
    with pytest.raises(BadInput, match="num_key_value_heads is 3"):
        workload_of(llama(64, 2, 8, 96, 100, 3), "mine.json")


def test_an_image_has_the_side_that_places_are_for():
    images = workload_of(VIT, "vit.json")
    assert summaries_of(images, replace(ENCODE, image=224)) == summaries_of(images, ENCODE)
    message = "an image of 384 pixels a side for vit; legal: 224\n  fix: change image_size"
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        summaries_of(images, replace(ENCODE, image=384))
