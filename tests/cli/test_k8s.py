import json
import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import fake_api
import pytest
from typer.testing import CliRunner

from trnsim.cli import app


def extension(*arguments, **settings):
    command = [sys.executable, "-m", "trnsim", "k8s", "scheduler-extension", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **settings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no API of Kubernetes is named"),
        (["--server", "x"], "is no address of an API; legal: https://HOST:PORT"),
        (["--server", "http://127.0.0.1:1"], "does not answer"),
        (["--server", "https://h", "--ca-file", "absent"], "cannot read absent"),
        (["--port", "65536"], "is above 65535"),
    ],
)
def test_refusals(arguments, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = CliRunner().invoke(app, ["k8s", "scheduler-extension", *arguments])
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGTERM ends no process of Windows in order")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_extension_answers_until_it_is_ended(number, tmp_path):
    token = tmp_path / "token"
    token.write_text(fake_api.TOKEN, encoding="utf-8")
    with fake_api.served() as (objects, url):
        objects.node("ring", "inf2.24xlarge", 6, 12)
        pod = objects.pod("a", (3,))
        with extension("--server", url, "--token-file", str(token), "--port", "0") as process:
            try:
                assert "1 node, 0 pods" in process.stderr.readline()
                place = process.stderr.readline().split()[-1]
                call = json.dumps({"Pod": pod, "NodeNames": ["ring"]}).encode()
                with urlopen(f"{place}/filter", call, timeout=5) as answer:  # noqa: S310  http
                    assert json.load(answer)["NodeNames"] == ["ring"]
                process.send_signal(number)
                assert process.wait(5) == 0
                assert "filter default/a: fits ring" in process.stderr.read()
            finally:
                process.kill()
