"""The scripts of the page and their types, JSDoc and report.d.ts, under a strict checker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trnsim.profile import report_of
from trnsim.profile.report_page import html

DENO = Path(sys.executable).parent / "deno"
PAGE = Path(html.__file__).parent
OPTIONS = {"checkJs": True, "strict": True, "lib": ["dom", "dom.iterable", "esnext"]}
pytestmark = pytest.mark.skipif(not DENO.exists(), reason="pip install 'trnsim[check]' brings deno")


@pytest.fixture
def complaints(tmp_path):
    """Checks a script beside the declarations: what the checker says of it."""
    (tmp_path / "report.d.ts").write_text((PAGE / "report.d.ts").read_text(encoding="utf-8"))
    (tmp_path / "deno.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
    quiet = {"DENO_DIR": str(tmp_path / "cache"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}

    def check(text, name="page.js"):
        path = tmp_path / name
        path.write_text(f'/// <reference path="./report.d.ts" />\n{text}', encoding="utf-8")
        done = subprocess.run(
            [DENO, "check", "--no-remote", path],
            capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ | quiet,
        )  # fmt: skip
        assert (done.returncode == 0) == ("ERROR" not in done.stderr), done.stderr
        return done.stderr if done.returncode else ""

    return check


def scripts():
    """All scripts, in the order in which a page has them in one element."""
    return "".join((PAGE / name).read_text(encoding="utf-8") for name in html._SCRIPTS)


@pytest.mark.slow
def test_the_scripts_are_typed(complaints):
    assert complaints(scripts()) == ""


MISTAKES = {
    "spans.latency[i]": ("spans.latencies[i]", "Property 'latencies' does not exist"),
    "m.hbm_read_bytes": ("m.hbm_read_byte.at", "Property 'at' does not exist"),
    "const short = (ns) =>": ("const short = (ns, unit) =>", "'unit' implicitly has an 'any' type"),
    "drawCause(pen);": ("drawCause(canvas);", "is not assignable to parameter"),
}


@pytest.mark.slow
@pytest.mark.parametrize("right", MISTAKES)
def test_a_mistake_is_found(right, complaints):
    wrong, said = MISTAKES[right]
    assert right in scripts()
    assert said in complaints(scripts().replace(right, wrong))


@pytest.mark.slow
def test_a_report_is_what_its_types_say(complaints, timeline, ran):
    given = json.dumps(report_of([ran(timeline)]))
    assert complaints(f"const given = {given};\nconst report: Report = given;\n", "a.ts") == ""
