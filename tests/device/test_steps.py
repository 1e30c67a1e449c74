import struct

from trnsim.device import steps as module
from trnsim.device.steps import StepCounter, are_watched


def test_a_step_is_that_of_an_optimizer():
    one = StepCounter()
    seen = []
    one.listeners.append(lambda: seen.append(one.number))
    for _ in range(3):
        one.note_optimizer_step()
        one.note_synchronization()
    assert seen == [1, 2, 3]


def test_without_an_optimizer_it_is_a_synchronization():
    one = StepCounter()
    for _ in range(3):
        one.note_synchronization()
    assert one.number == 3
    one.note_optimizer_step()  # it was no such program after all
    assert one.number == 1


def test_waiting_for_many_results_is_one_synchronization():
    one = StepCounter()
    for number in range(3):
        one.note_work()
        for _ in range(4):
            one.note_wait()
        assert one.number == number + 1


def test_whoever_watches_reads_the_number_from_a_file(monkeypatch, tmp_path):
    for name in (module.STEP_VARIABLE, module.faults.FAULTS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert not are_watched()
    path = tmp_path / "step"
    path.write_bytes(bytes(8))
    monkeypatch.setenv(module.STEP_VARIABLE, str(path))
    assert are_watched()
    one = StepCounter()
    for _ in range(3):
        one.note_optimizer_step()
    assert struct.unpack("<q", path.read_bytes()) == (3,)
    module.tell_that_a_peer_is_lost()
    assert struct.unpack("<qq", path.read_bytes()) == (3, 1)
    path.unlink()
    one.note_optimizer_step()  # whoever watched is gone
