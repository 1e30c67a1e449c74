"""Three small models."""

BERT = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 256,
    "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512,
    "vocab_size": 1000, "max_position_embeddings": 128,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 4096,
}  # fmt: skip
VIT = {
    "model_type": "vit", "architectures": ["ViTModel"], "hidden_size": 192,
    "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 384,
    "image_size": 64, "patch_size": 16,
}  # fmt: skip
