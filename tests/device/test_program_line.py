from importlib.util import module_from_spec, spec_from_file_location

from trnsim.device import program_line as module
from trnsim.device.program_line import exclude_frames, is_program, program_line


def test_the_line_is_the_programs():
    line = program_line()
    assert line is not None
    assert line.file == __file__


def test_a_frameworks_frames_are_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_not_the_program", list(module._not_the_program))
    path = tmp_path / "framework.py"
    path.write_text("def call(function):\n    return function()\n")
    spec = spec_from_file_location("framework", path)
    framework = module_from_spec(spec)
    spec.loader.exec_module(framework)
    assert framework.call(program_line) == (str(path), 2)
    exclude_frames(framework)
    exclude_frames(framework)
    assert framework.call(program_line).file == __file__
    assert is_program(__file__)
    assert not is_program(str(path))
    assert not is_program(module.__file__)
    assert not is_program("<string>")
    assert module._not_the_program.count(str(tmp_path)) == 1
