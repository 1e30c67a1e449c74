"""A script for `accelerate launch`: supervised training of a tiny model, its losses printed."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import datasets
import torch
import trl
from known import MODELS
from words import tokenizer


def main(folder):
    texts = ["w1 w2 w3 w4 w5", "w9 w8 w7 w6 w5", "w4 w4 w3 w2 w1", "w5 w6 w7 w8 w9"] * 2
    arguments = trl.SFTConfig(
        output_dir=folder, max_length=16, max_steps=3, per_device_train_batch_size=2,
        logging_steps=1, report_to=[], save_strategy="no", learning_rate=1e-2, bf16=False,
        gradient_checkpointing=False, seed=1, use_cpu=not torch.accelerator.is_available(),
    )  # fmt: skip
    rows = datasets.Dataset.from_dict({"text": texts})
    model = MODELS["Llama"].build()
    trainer = trl.SFTTrainer(model, arguments, train_dataset=rows, processing_class=tokenizer())
    trainer.train()
    if trainer.accelerator.is_main_process:
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        answer = {
            "device": trainer.accelerator.device.type,
            "processes": trainer.accelerator.num_processes,
            "losses": losses,
        }
        print("ANSWER", json.dumps(answer), flush=True)


main(*sys.argv[1:])
