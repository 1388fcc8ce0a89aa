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
        config, weights = _read(directory)
        self.table = torch.nn.Parameter(weights["encoder/embeddings/word_embeddings"])
        self.output_bias = torch.nn.Parameter(weights["language_model/output_bias"])
        self.dropout, self.layers = torch.nn.Dropout(dropout), torch.nn.ModuleList()
        for number in range(config["num_hidden_layers"]):
            self.layers.append(_lstm(weights, f"encoder/layer_{number}/forward"))

    def forward(self, ids):
        x = self.dropout(torch.nn.functional.embedding(ids, self.table))
        for layer in self.layers:
            x = self.dropout(layer(x)[0])
        return torch.nn.functional.linear(x, self.table, self.output_bias)

    def loss(self, ids):
        return _cross_entropy(self(ids)[:, :-1], ids[:, 1:])


class ElmoModel(torch.nn.Module):
    """Convolutions over the characters of pieces, LSTM layers of both directions, and one output layer.

    Args:
        directory: str. Folder with config.json and weights.npz of an ELMo of this project.
        dropout: float. Rate of dropout.
    """

    def __init__(self, directory, dropout):
        super().__init__()
        config, weights = _read(directory)
        embeddings = {path.removeprefix("encoder/embeddings/"): value for path, value in weights.items()}
        self.register_buffer("characters", embeddings["characters"].long())
        self.table = torch.nn.Parameter(embeddings["table"])
        size = config["character_size"]
        # [width x size, filters] -> [filters, size, width]
        self.filters = torch.nn.ParameterList(
            embeddings[f"filters_{width}"].reshape(width, size, -1).permute(2, 1, 0).contiguous()
            for width, _ in config["character_filters"]
        )
        self.biases = torch.nn.ParameterList(embeddings[f"bias_{width}"] for width, _ in config["character_filters"])
        self.highways = torch.nn.ModuleList(
            _linear(embeddings, f"highway_{number}") for number in range(config["num_highway_layers"])
        )
        self.projection = _linear(embeddings, "projection")
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleList(_lstm(weights, f"encoder/layer_{number}/{side}") for side in ("forward", "backward"))
            for number in range(config["num_hidden_layers"])
        )
        self.output_table = torch.nn.Parameter(weights["language_model/output_embeddings"])
        self.output_bias = torch.nn.Parameter(weights["language_model/output_bias"])
        self.dropout = torch.nn.Dropout(dropout)

    def vectors(self, ids):
        """The vectors of pieces, [B, S, P]."""
        characters = torch.nn.functional.embedding(self.characters[ids.reshape(-1)], self.table).transpose(1, 2)
        maxima = [
            torch.nn.functional.conv1d(characters, kernel, bias).amax(dim=2)
            for kernel, bias in zip(self.filters, self.biases, strict=True)
        ]
        x = torch.relu(torch.cat(maxima, dim=-1))
        for highway in self.highways:
            changed, carried = highway(x).chunk(2, dim=-1)
            carried = torch.sigmoid(carried)
            x = carried * x + (1 - carried) * torch.relu(changed)
        return self.projection(x).reshape(*ids.shape, -1)

    def forward(self, ids):
        vectors = self.vectors(ids)
        before = [vectors, vectors]
        inputs = [self.dropout(each) for each in before]
        for number, (forward, backward) in enumerate(self.layers):
            outputs = [forward(inputs[0])[0], backward(inputs[1].flip(1))[0].flip(1)]
            if number:
                outputs = [output + each for output, each in zip(outputs, before, strict=True)]
            before, inputs = outputs, [self.dropout(each) for each in outputs]
        return inputs

    def loss(self, ids):
        forward, backward = self(ids)
        # The backward model does not predict the first piece of a row.
        parts = ((forward[:, :-1], ids[:, 1:]), (backward[:, 2:], ids[:, 1:-1]))
        logits_of = lambda states: torch.nn.functional.linear(states, self.output_table, self.output_bias)  # noqa: E731
        return sum(_cross_entropy(logits_of(states), labels) for states, labels in parts) / 2


def _read(directory):
    """(configuration, dict path -> tensor) of a model."""
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with np.load(os.path.join(directory, "weights.npz")) as arrays:
        return config.get("model", config), {name: torch.tensor(arrays[name]) for name in arrays.files}


def _lstm(weights, path):
    """A torch.nn.LSTM of one direction with the weights of a layer."""
    kernel, recurrent = weights[f"{path}_kernel"], weights[f"{path}_recurrent_kernel"]
    projection = weights.get(f"{path}_projection_kernel")
    units, projected = recurrent.shape[1] // 4, 0 if projection is None else projection.shape[1]
    layer = torch.nn.LSTM(kernel.shape[0], units, batch_first=True, proj_size=projected)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(kernel.T)
        layer.weight_hh_l0.copy_(recurrent.T)
        layer.bias_ih_l0.copy_(weights[f"{path}_bias"])
        layer.bias_hh_l0.zero_()  # torch has two biases, of which one is enough
        if projected:
            layer.weight_hr_l0.copy_(projection.T)
    layer.bias_hh_l0.requires_grad_(False)
    return layer


def _linear(weights, path):
    kernel = weights[f"{path}/kernel"]
    layer = torch.nn.Linear(*kernel.shape)
    with torch.no_grad():
        layer.weight.copy_(kernel.T)
        layer.bias.copy_(weights[f"{path}/bias"])
    return layer


def _cross_entropy(logits, labels):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def make(request):
    ids, dropout = torch.tensor(np.load(request["batch_file"])["input_word_ids"]).long(), request["dropout"]
    if request["architecture"] == "gpt":
        model = transformers.GPT2LMHeadModel.from_pretrained(
            request["directory"], resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False
        )
        loss_of = lambda: _cross_entropy(model(input_ids=ids).logits[:, :-1], ids[:, 1:])  # noqa: E731
    else:
        model = (ElmoModel if request["is_bidirectional"] else LstmModel)(request["directory"], dropout)
        loss_of = lambda: model.loss(ids)  # noqa: E731
    model.train()
    optimizer = fused_adamw(
        model, **{name: request[name] for name in ("learning_rate", "weight_decay", "beta_2", "epsilon")}
    )

    def step():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step, sum(value.numel() for value in model.parameters() if value.requires_grad)


answer = step_answers.answers_of_steps(make)
