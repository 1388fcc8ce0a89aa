"""Hugging Face transformers' fine-tuning, for finetuning_epoch.

reference_answers runs this script in an environment with benchmarks/requirements-hf.txt. The script trains
BertForSequenceClassification with the steps of transformers' Trainer with group_by_length. It tokenizes all texts
before the first round. The texts of a batch have similar lengths, and each batch is padded to its longest text.
Predictions run in the order of the lengths.
"""

import contextlib
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import epoch_answers
import torch
import transformers
from transformers.trainer_pt_utils import LengthGroupedSampler

from benchmarks.common.torch_adamw import fused_adamw

PACKAGES = ("transformers", "torch")


def make(request):
    torch.manual_seed(request["seed"])
    with open(request["texts_file"], encoding="utf-8") as file:
        texts = json.load(file)
    tokenizer = transformers.AutoTokenizer.from_pretrained(request["directory"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(request["directory"])
    collator = transformers.DataCollatorWithPadding(tokenizer)
    rows = {
        part: [
            dict(tokenizer(text, truncation=True, max_length=request["max_seq_length"]), labels=int(label))
            for text, label in examples
        ]
        for part, examples in texts.items()
    }
    optimizer = fused_adamw(model, learning_rate=request["learning_rate"], weight_decay=0.01)
    is_bfloat16, size = request["precision"] == "bfloat16", request["batch_size"]
    sampler = LengthGroupedSampler(
        size,
        lengths=[len(row["input_ids"]) for row in rows["train"]],
        generator=torch.Generator().manual_seed(request["seed"]),
    )

    def precision():
        return torch.autocast("cpu", torch.bfloat16) if is_bfloat16 else contextlib.nullcontext()

    def train():
        model.train()
        order = list(sampler)
        for at in range(0, len(order), size):
            optimizer.zero_grad()
            with precision():
                loss = model(**collator([rows["train"][index] for index in order[at : at + size]])).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    def predict():
        model.eval()
        order = sorted(range(len(rows["dev"])), key=lambda index: len(rows["dev"][index]["input_ids"]))
        logits = torch.empty(len(order), model.config.num_labels)
        with torch.inference_mode(), precision():
            for at in range(0, len(order), size):
                indexes = order[at : at + size]
                logits[indexes] = model(**collator([rows["dev"][index] for index in indexes])).logits.float()
        return logits.numpy()

    return train, predict


answer = epoch_answers.answers_of_epochs(make)
