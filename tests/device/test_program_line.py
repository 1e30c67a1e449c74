from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location

from trnsim import errors
from trnsim.device import program_line as module
from trnsim.device.program_line import exclude_frames, is_program, program_line, program_place
from trnsim.errors import BadInput, working_for


def test_the_line_is_the_programs():
    line = program_line()
    assert line is not None
    assert line.file == __file__


def test_a_thread_of_pythons_own_library_has_the_line_that_it_works_for():
    line = program_line()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(program_line).result() is None
        assert pool.submit(program_place).result() is None
        entered = working_for(line)
        pool.submit(entered.__enter__).result()
        assert pool.submit(program_line).result() == line
        assert pool.submit(BadInput, "reason").result().line == line
        pool.submit(entered.__exit__, None, None, None).result()
        assert pool.submit(program_line).result() is None


def test_a_frameworks_frames_are_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(errors, "_frameworks", list(errors._frameworks))
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
    assert errors._frameworks.count(str(tmp_path)) == 1
