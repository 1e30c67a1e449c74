import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.device.numerics import numerics

torch.manual_seed(0)
IMAGE, GRID = torch.randn(2, 3, 6, 7), torch.rand(2, 4, 5, 2) * 2.4 - 1.2


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("is_aligned", [False, True])
def test_images_are_sampled_at_any_points(agree, mode, padding, is_aligned):
    agree(
        lambda x, g: F.grid_sample(x, g, mode, padding, is_aligned), IMAGE, GRID,
        tolerance=2.0**-14,
    )  # fmt: skip


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("True-zeros-bilinear")
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("is_aligned", [False, True])
def test_gradients_of_the_image_and_of_the_points(agree, mode, padding, is_aligned):
    def gradients(image, grid):
        leaves = [image.detach().requires_grad_(), grid.detach().requires_grad_()]
        sample = F.grid_sample(*leaves, mode, padding, is_aligned)
        weights = torch.linspace(-1, 1, sample.numel()).reshape(sample.shape).to(image.device)
        return list(torch.autograd.grad(sample, leaves, weights))

    agree(gradients, IMAGE, GRID, tolerance=2.0**-12)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_gradient_of_the_image_or_of_the_points_alone(number, is_compiled):
    def gradient(device):
        leaves = [IMAGE.detach().to(device), GRID.detach().to(device)]
        leaves[number].requires_grad_()
        is_traced = is_compiled and device == "neuron"
        sample = torch.compile(F.grid_sample, backend="neuron") if is_traced else F.grid_sample
        sample(*leaves, align_corners=False).sin().sum().backward()
        return leaves[number].grad.cpu()

    torch.compiler.reset()
    with numerics("exact") as on_host:
        computed = gradient("neuron")
    assert not on_host
    torch.testing.assert_close(computed, gradient("cpu"), rtol=1e-3, atol=1e-4)


def test_reflection_is_left_to_the_host(agree):
    agree(
        lambda x, g: F.grid_sample(x, g, "nearest", "reflection", True),
        IMAGE,
        GRID,
        is_lowered=False,
    )


def test_between_two_pixels_the_even_one_is_nearest(agree):
    x = torch.arange(9.0).reshape(1, 1, 3, 3)
    at = torch.tensor([-0.5, 0.5, 0.0, 1.0])
    grid = torch.stack((at, torch.zeros(4)), dim=-1).reshape(1, 1, 4, 2)
    agree(lambda x, g: F.grid_sample(x, g, "nearest", "zeros", True), x, grid, tolerance=0)
