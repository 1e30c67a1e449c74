"""Configurations of models, and files that hold them."""

import json

BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}
VIT = {"model_type": "vit", "image_size": 224, "patch_size": 16}
CLIP = {
    "model_type": "clip",
    "text_config": {"max_position_embeddings": 77},
    "vision_config": {"image_size": 224, "patch_size": 32},
    "projection_dim": 512,
}
TEXT = {
    "model_type": "clip_text_model",
    "vocab_size": 49408,
    "hidden_size": 1024,
    "num_hidden_layers": 23,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "max_position_embeddings": 77,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 64,
    "vocab_size": 100,
}
RESNET = {
    "model_type": "resnet",
    "architectures": ["ResNetForImageClassification"],
    "num_channels": 3,
    "embedding_size": 64,
    "hidden_sizes": [64, 128],
    "depths": [1, 1],
}
UNET = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": [32, 64],
    "layers_per_block": 1,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    "cross_attention_dim": 1024,
    "attention_head_dim": 8,
    "norm_num_groups": 8,
}
VAE = {
    "_class_name": "AutoencoderKL",
    "sample_size": 512,
    "latent_channels": 4,
    "block_out_channels": [32, 64],
    "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D"],
    "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D"],
    "norm_num_groups": 8,
}
INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "_diffusers_version": "0.42.1",
    "requires_safety_checker": False,
    "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
    "scheduler": ["diffusers", "PNDMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}


def write(folder, config, name="mine.json"):
    """A file that holds a configuration."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def pipeline(folder, index=None, text=None):
    """The folder of a pipeline of diffusers."""
    write(folder, index or INDEX, "model_index.json")
    for name, config in (("text_encoder", text or TEXT), ("unet", UNET), ("vae", VAE)):
        write(folder, config, f"{name}/config.json")
    return folder
