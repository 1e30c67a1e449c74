import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.models.config import read_config, transformers


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        BadInput, match=r"a config.json needs transformers, which builds the model"
    ) as error:
        transformers()
    assert error.value.fix == "pip install 'trnsim[models]'"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read .*config.json: No such file"):
        read_config(tmp_path / "config.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}"])
def test_what_is_no_json_is_refused(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"config.json(:1: not JSON|:1: the file is)"):
        read_config(path)


@pytest.mark.parametrize("values", [{}, {"hidden_size": 8}, [], 1, None])
def test_what_names_no_architecture_is_refused(tmp_path, values):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(BadInput, match="names no model_type, so it is no model's configuration"):
        read_config(path)
