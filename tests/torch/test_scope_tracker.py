import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.torch import pytorch, scope_tracker
from trnsim.torch.scope_tracker import ScopeTracker


class Noting(nn.Module):
    """Writes down where it is when it is called."""

    def __init__(self, where, seen):
        super().__init__()
        self.where, self.seen = where, seen

    def forward(self, x):
        self.seen.append((self.where.path(), self.where.is_stepping))
        return x


@pytest.fixture
def seen():
    return []


@pytest.fixture
def model(seen):
    where = ScopeTracker()
    return where, nn.Sequential(Noting(where, seen), nn.Sequential(Noting(where, seen)))


def test_modules_are_known_by_their_names_while_they_run(model, seen):
    where, modules = model
    with where.watched():
        modules(torch.ones(1))
        assert where.path() == ""
    assert seen == [("0", False), ("1.0", False)]


def test_nothing_is_known_where_nobody_looks(model, seen):
    where, modules = model
    with where.watched():
        assert where.watch() == []
    modules(torch.ones(1))
    assert seen == [("", False)] * 2


def test_an_error_leaves_no_module_behind(model):
    where, _ = model
    with where.watched():
        with pytest.raises(TypeError):
            nn.Linear(1, 1)("no tensor")
        assert where.path() == ""


def test_a_long_program_keeps_the_modules_of_its_last_operators(monkeypatch):
    monkeypatch.setattr(scope_tracker, "_MOST_SPANS", 10)
    numbers = iter(range(1, 100))
    monkeypatch.setattr(pytorch, "next_sequence_number", lambda: next(numbers))
    tracker = ScopeTracker()
    paths = [f"layer.{number}" for number in range(50)]
    for path in paths:
        monkeypatch.setattr(tracker, "path", lambda path=path: path)
        assert tracker.scope().module == path
    monkeypatch.setattr(pytorch, "backward_sequence_number", lambda: 48)
    assert tracker.scope().module == "layer.48"
    assert len(tracker._starts) == len(tracker._paths) <= 10


def test_an_optimizers_step_is_known():
    where = ScopeTracker()
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter])
    seen = []
    with where.watched():
        optimizer.step(lambda: seen.append(where.is_stepping))
    assert (seen, where.is_stepping) == ([True], False)


def test_a_step_that_raised_ends_with_the_next_model(model, seen):
    where, modules = model
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.LBFGS([weight])

    def fail():
        raise ValueError

    def close():
        modules(weight)
        return weight.sum()

    with where.watched():
        with pytest.raises(ValueError):  # noqa: PT011  its own
            optimizer.step(fail)
        modules(torch.ones(1))
        optimizer.step(close)
    assert [is_stepping for _, is_stepping in seen[:4]] == [False, False, True, True]
