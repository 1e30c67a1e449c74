import json
import subprocess

import pytest
import specs

PLAN = {
    "schema": "plan-train/1",
    "model": "llama-3.2-1b",
    "steps": 10.0,
    "instance": "trn1.32xlarge",
    "instances": 1,
    "layout": {"tensor": 8, "data": 4, "global_batch": 64, "sequence": 2048},
}
RST = """Title
=====

.. code-block:: yaml
   :linenos:

   a: 1

   b: 2

text

  .. code::

     c: 3

end
"""


@pytest.fixture
def folder(tmp_path):
    clone = tmp_path / "plans"
    clone.mkdir()
    (clone / "plan.json").write_text(json.dumps(PLAN))
    (clone / "page.md").write_text(f"# a\n\n```json\n{json.dumps(PLAN)}\n```\n")
    git = ("git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "a")):
        subprocess.run((*git, *words), check=True)
    return tmp_path


def row(**changes):
    return {
        "repository": "org/plans",
        "commit": "HEAD",
        "file": "plan.json",
        "format": "plan",
        "jobs": 1,
        "findings": [],
        "note": "",
        **changes,
    }


def test_a_spec_is_read_at_its_commit_and_priced(folder):
    (folder / "plans" / "plan.json").write_text("changed since")
    result = specs.outcome(folder, row())
    assert result.faults == []
    assert result.prices == ["plan"]
    assert specs.outcome(folder, row(file="page.md", block=0)).prices == ["plan"]


def test_what_differs_from_its_row_is_told(folder):
    wrong = row(format="ecs", jobs=2, findings=["efa-count:3"])
    assert specs.outcome(folder, wrong).faults == [
        "format: plan, not ecs",
        "jobs: 1, not 2",
        "findings: [], not ['efa-count:3']",
    ]


def test_code_blocks_of_pages_have_no_indent():
    assert specs.blocks(RST) == ["a: 1\n\nb: 2\n\n", "c: 3\n\n"]


def test_the_page_has_a_line_for_each_spec(folder):
    result = specs.outcome(folder, row())
    text = specs.page([result])
    assert "1 specs: 1 plan." in text
    assert "| org/plans | `plan.json` | plan | 1 | - | plan |" in text
    assert text.endswith("None.\n")


def test_every_table_has_whole_rows():
    names = {"repository", "commit", "file", "format", "jobs", "findings", "note"}
    for each in specs.rows(()):
        assert names <= each.keys()
        assert len(each["commit"]) == 40
        assert each["note"] or not each["findings"]
