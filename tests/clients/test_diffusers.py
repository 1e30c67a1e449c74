"""Released diffusers on the device: tiny denoisers and a pipeline, against the CPU."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
diffusers = pytest.importorskip("diffusers", reason="make clients installs diffusers")

pytestmark = pytest.mark.filterwarnings("ignore")

IMAGE = (2, 4, 8, 8)


def sdxl():
    """The UNet of Stable Diffusion XL, two blocks, with its additional text and time embeddings."""
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 64), layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(2, 4), transformer_layers_per_block=(1, 2), cross_attention_dim=64,
        use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=80, norm_num_groups=8,
    )  # fmt: skip
    added = {"text_embeds": noise(2, 32), "time_ids": noise(2, 6)}
    inputs = {"sample": noise(*IMAGE), "encoder_hidden_states": noise(2, 5, 64)}
    return unet, inputs | {"timestep": torch.tensor(5), "added_cond_kwargs": added}


def flux():
    """FLUX's transformer: one double and one single block."""
    model = diffusers.FluxTransformer2DModel(
        in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8), guidance_embeds=True,
    )  # fmt: skip
    places = torch.stack([torch.arange(16) * 0, torch.arange(16) // 4, torch.arange(16) % 4], 1)
    inputs = {
        "hidden_states": noise(2, 16, 4),
        "encoder_hidden_states": noise(2, 5, 32),
        "pooled_projections": noise(2, 32),
        "timestep": torch.tensor([0.5, 0.7]),
        "guidance": torch.tensor([3.0, 3.0]),
        "img_ids": places.float(),
        "txt_ids": torch.zeros(5, 3),
    }
    return model, inputs


def diffusion_transformer():
    """DiT: a transformer over patches, told the time and the class."""
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=8, num_layers=2,
        sample_size=8, patch_size=2, norm_num_groups=8, num_embeds_ada_norm=10,
    )  # fmt: skip
    steps = {"timestep": torch.tensor([3, 9]), "class_labels": torch.tensor([1, 7])}
    return model, {"hidden_states": noise(*IMAGE)} | steps


def noise(*shape):
    return torch.randn(shape)


def moved(value, device):
    if isinstance(value, dict):
        return {name: moved(part, device) for name, part in value.items()}
    return value.to(device)


def output_and_gradients(make, device):
    torch.manual_seed(0)
    model, inputs = make()
    model = model.eval().to(device)
    output = model(**moved(inputs, device)).sample
    output.square().mean().backward()
    grads = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return output.detach().cpu(), grads


@pytest.mark.parametrize("make", [sdxl, flux, diffusion_transformer])
def test_outputs_and_gradients_are_the_cpus(make):
    (found, grads), (expected, theirs) = (output_and_gradients(make, d) for d in ("neuron", "cpu"))
    assert torch.allclose(found, expected, atol=1e-5)
    assert grads.keys() == theirs.keys()
    steepest = max(gradient.abs().max() for gradient in theirs.values())
    for name, gradient in grads.items():
        assert (gradient - theirs[name]).abs().max() <= 1e-4 * steepest, name


def image(device, steps=3):
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, block_out_channels=(16, 32),
        layers_per_block=1, norm_num_groups=8, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    pipe = diffusers.DDIMPipeline(unet.eval(), diffusers.DDIMScheduler()).to(device)
    pipe.set_progress_bar_config(disable=True)
    assert pipe.device.type == device
    seeded = torch.Generator("cpu").manual_seed(1)
    options = {"batch_size": 2, "num_inference_steps": steps, "output_type": "np"}
    return torch.tensor(pipe(generator=seeded, **options).images)


def test_a_pipeline_draws_the_cpus_picture():
    found, expected = image("neuron"), image("cpu")
    assert found.shape == (2, 8, 8, 3)
    assert found.std() > 0
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["EulerDiscreteScheduler", "FlowMatchEulerDiscreteScheduler"])
def test_schedulers_step_on_the_device_as_on_the_cpu(name):
    def stepped(device):
        torch.manual_seed(0)
        scheduler = getattr(diffusers, name)()
        scheduler.set_timesteps(3, device=device)
        sample = noise(*IMAGE).to(device)
        for step in scheduler.timesteps:
            sample = scheduler.step(sample * 0.1, step, sample).prev_sample
        return sample.cpu()

    assert torch.allclose(stepped("neuron"), stepped("cpu"), atol=1e-5)


def test_random_tensors_of_diffusers_land_on_the_device():
    seeded = torch.Generator("cpu").manual_seed(3)
    from diffusers.utils.torch_utils import randn_tensor

    found = randn_tensor(IMAGE, generator=seeded, device=torch.device("neuron"))
    assert found.device.type == "neuron"
    assert torch.equal(found.cpu(), torch.randn(IMAGE, generator=seeded.manual_seed(3)))
