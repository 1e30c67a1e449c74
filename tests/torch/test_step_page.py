import re
import shutil
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.device_time import step_time
from trnsim.torch.recording import recording
from trnsim.torch.step_page import step_page

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def steps():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    model = model.to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 64).to("neuron")
    with recording() as found:
        model(x).pow(2).mean().backward()
        optimizer.step()
        torch.randn(4, device="neuron").sort()
    return [step_time(found, target) for target in ("trn2", "trn1")]


def test_the_page_has_every_chip_phase_and_what_has_no_time(steps):
    page = step_page(steps, [0.1, 0.2], "further <text>")
    for word in ("trn2", "trn1", "forward", "backward", "optimizer", "launches", "HBM: "):
        assert word in page
    assert "Without a time" in page or not steps[0].missing
    assert "further &lt;text&gt;" in page


def test_kernels_and_launches_lie_one_after_the_other_within_the_drawing(steps):
    page = step_page(steps, [0.1, 0.2])
    spans = [
        (float(x), float(width))
        for x, width in re.findall(r'<rect class="\w+" x="([\d.]+)" y="\d+" width="([\d.]+)"', page)
    ]
    assert 2 < len(spans) <= 2 * sum(len(t.kernels) for t in steps[0].times.values()) * 9
    assert all(x + width <= 1162 for x, width in spans)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_browser_draws_it(steps, tmp_path):
    path = tmp_path / "step.html"
    path.write_text(step_page(steps, [0.1, 0.2]), encoding="utf-8")
    picture = tmp_path / "step.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]
    command = [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'user'}"]
    subprocess.run(
        [*command, f"--screenshot={picture}", path.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert picture.stat().st_size > 10_000
