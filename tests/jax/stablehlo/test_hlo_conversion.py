import io
import sys

import pytest

from trnsim.jax.stablehlo import hlo_conversion
from trnsim.jax.stablehlo.hlo import TEXT_KIND

TEXT = b"HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT t = f32[4] tanh(a)\n}\n"


class Stream:
    def __init__(self, content=b""):
        self.buffer = io.BytesIO(content)


@pytest.fixture
def streams(monkeypatch):
    def given(content):
        monkeypatch.setattr(sys, "argv", ["x", TEXT_KIND])
        monkeypatch.setattr(sys, "stdin", Stream(content))
        monkeypatch.setattr(sys, "stdout", Stream())
        monkeypatch.setattr(hlo_conversion, "_limit_memory", lambda _: None)

    return given


def test_a_program_goes_from_stdin_to_stdout(streams):
    streams(TEXT)
    hlo_conversion.main()
    assert sys.stdout.buffer.getvalue().startswith(b"ML\xefR")


def test_an_error_is_one_of_status_1(streams, capsys):
    streams(TEXT.replace(b"tanh", b"tanq"))
    with pytest.raises(SystemExit) as ended:
        hlo_conversion.main()
    assert ended.value.code == 1
    assert "tanq" in capsys.readouterr().err
