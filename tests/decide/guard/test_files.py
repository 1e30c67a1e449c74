import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from guarded import CHAT, OTHER, decision

from trnsim.arch.catalogue import catalogue
from trnsim.decide.guard.files import FILES, write
from trnsim.errors import BadInput

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_all_files_are_written_and_agree(tmp_path):
    paths = write(decision(CHAT, OTHER), tmp_path / "new" / "guard", catalogue())
    assert [one.name for one in paths] == list(FILES)
    page, rules, _, figures = (one.read_text() for one in paths)
    (workload,) = json.loads(figures)["workloads"]
    assert workload["name"] == "chat"
    assert workload["break_even_rate_per_s"] == 600
    assert [one["instances"] for one in workload["kept"]] == [4, 1, 0]
    names = [rule["alert"] for rule in yaml.safe_load(rules)["groups"][0]["rules"]]
    assert names == [one["name"] for one in workload["alerts"]]
    assert "## chat: p4d.24xlarge to trn1.32xlarge" in page
    assert "| proven       | 1 x p4d.24xlarge | 25,000      | 15%         |" in page
    assert "tuning" not in page
    assert "Above 33 USD an hour" in page
    assert "{{" not in page


def inventory(folder):
    """An inventory with the workload that is guarded."""
    (folder / "model.json").write_text((EXAMPLES / "llama-3.1-8b.json").read_text())
    (folder / "inventory.csv").write_text(
        "workload,model_config,kind,current_instance,usd_per_month,tokens_per_month\n"
        "chat,model.json,serve,p4d.24xlarge,100000,3.6e9\n"
    )
    return str(folder / "inventory.csv")


def test_operators_that_stay_on_a_gpu_are_priced_from_the_inventory(tmp_path):
    chat = replace(CHAT, split=("aten.a",))
    paths = write(decision(chat, inventory=inventory(tmp_path)), tmp_path / "g", catalogue())
    (workload,) = json.loads(paths[3].read_text())["workloads"]
    made = workload["split"]
    assert made["bytes_per_token"] == 2 * 32 * 4096 * 2
    # Both have EFA; a GPU of today's costs a quarter of today's bill.
    extra = 60_000 * made["step_s"] / 0.010
    assert made["usd_per_month"] == pytest.approx(60_000 + extra + 25_000)
    assert "aten.a would run on 1 GPU instance beside it" in paths[0].read_text()


def test_an_inventory_that_has_lost_the_workload_is_refused(tmp_path):
    gone = replace(CHAT, name="gone", split=("aten.a",))
    with pytest.raises(BadInput, match="the inventory has no 'gone' any more"):
        write(decision(gone, inventory=inventory(tmp_path)), tmp_path / "g", catalogue())


def test_a_folder_that_cannot_be_written_is_refused_first(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="file"):
        write(decision(CHAT), tmp_path / "file" / "guard", catalogue())
