"""Hugging Face transformers' training step, asked by benchmarks.training_step; not run by hand.

BertForPreTraining with AdamW as its Trainer takes a step. It computes logits of every position, as its run_mlm does.
"""

import peer_answers  # first of all
import contextlib
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers


def make(request):
    batch = {name: torch.tensor(values) for name, values in np.load(request["batch_file"]).items()}
    model = transformers.BertForPreTraining.from_pretrained(request["directory"])
    labels = torch.full(batch["input_word_ids"].shape, -100)
    labels.scatter_(1, batch["masked_lm_positions"].long(), batch["masked_lm_ids"].long())
    inputs = {"input_ids": batch["input_word_ids"].long(), "attention_mask": batch["input_mask"].long(),
              "token_type_ids": batch["input_type_ids"].long(), "labels": labels,
              "next_sentence_label": batch["next_sentence_labels"].long()}
    is_decayed = {name: "bias" not in name and "LayerNorm" not in name for name, _ in model.named_parameters()}
    groups = [{"params": [value for name, value in model.named_parameters() if is_decayed[name] == decayed],
               "weight_decay": 0.01 * decayed} for decayed in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=request["learning_rate"], eps=1e-6)

    def loss():
        low = request["precision"] == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16) if low else contextlib.nullcontext():
            return model(**inputs).loss

    def step():
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    model.eval()
    with torch.no_grad():
        first = loss().item()
    model.train()
    return step, first, sum(value.numel() for value in model.parameters())


if __name__ == "__main__":
    peer_answers.serve_steps(make, ("transformers", "torch"))
