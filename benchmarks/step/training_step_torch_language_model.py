"""The training step of transformers' GPT2 or of torch.nn.LSTM, for language_model_step.

reference_answers runs this script in an environment with benchmarks/requirements-hf.txt.
"""

import json
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


class LstmModel(torch.nn.Module):
    """A table of pieces, LSTM layers with dropout between them, and an output layer with the same table.

    Args:
        directory: str. Folder with config.json and weights.npz of an LSTM of this project.
        dropout: float. Rate of dropout.
    """

    def __init__(self, directory, dropout):
        super().__init__()
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config = config.get("model", config)
        with np.load(os.path.join(directory, "weights.npz")) as arrays:
            weights = {name: torch.tensor(arrays[name]) for name in arrays.files}
        self.table = torch.nn.Parameter(weights["encoder/embeddings/word_embeddings"])
        self.output_bias = torch.nn.Parameter(weights["language_model/output_bias"])
        self.dropout, self.layers = torch.nn.Dropout(dropout), torch.nn.ModuleList()
        for number in range(config["num_hidden_layers"]):
            path = f"encoder/layer_{number}/forward"
            kernel, recurrent = weights[f"{path}_kernel"], weights[f"{path}_recurrent_kernel"]
            layer = torch.nn.LSTM(kernel.shape[0], recurrent.shape[0], batch_first=True)
            with torch.no_grad():
                layer.weight_ih_l0.copy_(kernel.T)
                layer.weight_hh_l0.copy_(recurrent.T)
                layer.bias_ih_l0.copy_(weights[f"{path}_bias"])
                layer.bias_hh_l0.zero_()  # torch has two biases, of which one is enough
            layer.bias_hh_l0.requires_grad_(False)
            self.layers.append(layer)

    def forward(self, ids):
        x = self.dropout(torch.nn.functional.embedding(ids, self.table))
        for layer in self.layers:
            x = self.dropout(layer(x)[0])
        return torch.nn.functional.linear(x, self.table, self.output_bias)


def make(request):
    ids, dropout = torch.tensor(np.load(request["batch_file"])["input_word_ids"]).long(), request["dropout"]
    if request["architecture"] == "gpt":
        model = transformers.GPT2LMHeadModel.from_pretrained(
            request["directory"], resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False
        )
        logits_of = lambda: model(input_ids=ids).logits  # noqa: E731
    else:
        model = LstmModel(request["directory"], dropout)
        logits_of = lambda: model(ids)  # noqa: E731
    model.train()
    optimizer = fused_adamw(
        model, **{name: request[name] for name in ("learning_rate", "weight_decay", "beta_2", "epsilon")}
    )
    labels = ids[:, 1:].reshape(-1)

    def step():
        optimizer.zero_grad()
        logits = logits_of()[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step, sum(value.numel() for value in model.parameters() if value.requires_grad)


answer = step_answers.answers_of_steps(make)
