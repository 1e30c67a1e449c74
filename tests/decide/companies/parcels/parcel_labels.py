"""Labels of address lines."""

import torch
from transformers import AutoModelForTokenClassification


def labels(lines, tokenizer, device):
    model = AutoModelForTokenClassification.from_pretrained("addresses").to(device).eval()
    batch = tokenizer(lines, return_tensors="pt", padding="max_length", max_length=128)
    with torch.inference_mode():
        return model(**batch.to(device)).logits.argmax(-1)
