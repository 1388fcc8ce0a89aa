"""Hugging Face transformers' training step, for training_step.

reference_answers runs this script in an environment with benchmarks/requirements-hf.txt. The step is that of
transformers' Trainer from torch 2.8 on: BertForPreTraining with fused AdamW. The model computes the logits of every
position, as in run_mlm.
"""

import contextlib
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import numpy as np
import step_answers
import torch
import transformers

from benchmarks.common.torch_adamw import fused_adamw

PACKAGES = ("transformers", "torch")


def make(request):
    batch = {name: torch.tensor(values) for name, values in np.load(request["batch_file"]).items()}
    model = transformers.BertForPreTraining.from_pretrained(
        request["directory"], hidden_dropout_prob=request["dropout"], attention_probs_dropout_prob=request["dropout"]
    )
    model.train()
    labels = torch.full(batch["input_word_ids"].shape, -100)
    labels.scatter_(1, batch["masked_lm_positions"].long(), batch["masked_lm_ids"].long())
    inputs = {
        "input_ids": batch["input_word_ids"].long(),
        "attention_mask": batch["input_mask"].long(),
        "token_type_ids": batch["input_type_ids"].long(),
        "labels": labels,
        "next_sentence_label": batch["next_sentence_labels"].long(),
    }
    optimizer = fused_adamw(
        model, **{name: request[name] for name in ("learning_rate", "weight_decay", "beta_2", "epsilon")}
    )
    is_bfloat16 = request["precision"] == "bfloat16"

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if is_bfloat16 else contextlib.nullcontext():
            loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step, sum(value.numel() for value in model.parameters())


answer = step_answers.answers_of_steps(make)
