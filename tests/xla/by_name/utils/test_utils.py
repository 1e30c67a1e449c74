"""Small helpers of torch_xla, which need no device."""

import contextlib
import io
import socket

import pytest


def test_a_generator_gives_one_batch_a_number_of_times():
    import torch_xla.utils.utils as xu

    batches = xu.SampleGenerator(data="batch", sample_count=2)
    assert list(batches) == ["batch", "batch"]
    assert list(batches) == ["batch", "batch"]  # again from the start
    assert len(batches) == 2
    assert list(xu.SampleGenerator("batch", 0)) == []


def test_variables_are_read_as_a_type(monkeypatch):
    from torch_xla.utils.utils import check_env_flag, getenv_as

    monkeypatch.setenv("COUNT", "4")
    monkeypatch.setenv("FLAG", "0")
    monkeypatch.setenv("WORD", "Yes")
    assert getenv_as("COUNT", int) == 4
    assert getenv_as("FLAG", bool, True) is False
    assert getenv_as("COUNT", bool) is True
    assert getenv_as("NOTHING", int, 8) == 8
    assert getenv_as("NOTHING", int) is None
    assert check_env_flag("WORD")
    assert not check_env_flag("FLAG")
    assert check_env_flag("NOTHING", "on")
    with pytest.raises(ValueError, match="invalid literal"):
        getenv_as("WORD", int)


def test_free_ports_are_different_and_free():
    from torch_xla.utils.utils import get_free_tcp_ports

    ports = get_free_tcp_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    assert get_free_tcp_ports(0) == []


def test_values_in_lists():
    import torch_xla.utils.utils as xu

    items = [1]
    assert xu.list_copy_append(items, 2) == [1, 2]
    assert items == [1]
    assert xu.as_list((1,)) == (1,)
    assert xu.as_list([1]) == [1]
    assert xu.as_list("ab") == ("ab",)


def test_times_are_printed():
    import torch_xla.utils.utils as xu

    lines = []
    assert xu.timed(lambda: 3, "three: ", lines.append) == 3
    with xu.TimedScope("scope: ", lines.append):
        pass
    with pytest.raises(KeyError), xu.TimedScope("failed: ", lines.append):
        raise KeyError
    with xu.TimedScope("silent: ", None):
        pass
    assert [line.partition(" ")[0] for line in lines] == ["three:", "scope:"]
    assert all(line.endswith("sec") and float(line.split()[1][:-3]) < 1 for line in lines)
    assert xu.timed(lambda: 3, printfn=None) == 3


def test_debugging_prints_to_the_standard_error(monkeypatch):
    import torch_xla.utils.utils as xu

    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        xu.get_print_fn()("not said")
        monkeypatch.setenv("DEBUG", "1")
        xu.get_print_fn()("said")
        xu.get_print_fn(debug=False)("not said")
    assert printed.getvalue() == "said\n"


def test_other_helpers_are_refused_with_their_place_in_python():
    import torch_xla.utils.utils as xu

    assert not hasattr(xu, "parallel_work")
    with pytest.raises(ImportError, match=r"tempfile\.TemporaryDirectory"):
        from torch_xla.utils.utils import TmpFolder
