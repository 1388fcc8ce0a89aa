"""transformers' EncoderDecoderModel on torch, for the benchmark of text-to-text speed.

reference_answers runs this script in an environment with benchmarks/requirements-hf.txt. Attention is torch's
scaled_dot_product_attention. A training step is that of transformers' Trainer from torch 2.8 on, with fused AdamW. Its
loss is torch's cross_entropy with label smoothing, which is faster than the Trainer's LabelSmoother. Decoding is
`generate` with its cache. The work runs on the first GPU, or on the CPU.
"""

import contextlib
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import numpy as np
import speed_answers
import torch
import transformers

from benchmarks.common.torch_adamw import fused_adamw

PACKAGES = ("transformers", "torch")
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# gelu_pytorch_tanh is the same function as gelu_new in one kernel.
_FASTEST_ACTIVATIONS = {"gelu_new": "gelu_pytorch_tanh"}
_TIED = ("decoder.cls.predictions.decoder.weight", "decoder.cls.predictions.decoder.bias")


def make(request):
    torch.set_float32_matmul_precision("high")  # TensorFlow also multiplies float32 in TF32 on a GPU
    model = _model(request)
    with np.load(os.path.join(request["directory"], "batch.npz")) as arrays:
        batch = {name: torch.tensor(arrays[name]).long().to(_DEVICE) for name in arrays.files}
    source = {"input_ids": batch["input_word_ids"], "attention_mask": batch["input_mask"]}
    call = (
        _training(request, model, source, batch) if request["work"] == "training" else _decoding(request, model, source)
    )
    return call, {"parameters": sum(value.numel() for value in model.parameters()), "device": _DEVICE}


def _model(request):
    with open(os.path.join(request["directory"], "config.json"), encoding="utf-8") as file:
        settings = json.load(file)
    settings.update(
        hidden_act=_FASTEST_ACTIVATIONS.get(settings["hidden_act"], settings["hidden_act"]),
        hidden_dropout_prob=request["dropout"],
        attention_probs_dropout_prob=request["dropout"],
        attn_implementation="sdpa",
    )
    encoder = transformers.BertModel(transformers.BertConfig(**settings), add_pooling_layer=False)
    decoder = transformers.BertLMHeadModel(
        transformers.BertConfig(**settings, is_decoder=True, add_cross_attention=True)
    )
    model = transformers.EncoderDecoderModel(encoder=encoder, decoder=decoder)
    with np.load(os.path.join(request["directory"], "transformers.npz")) as arrays:
        state = {name: torch.tensor(arrays[name]) for name in arrays.files}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - set(_TIED):
        raise ValueError(f"the weights do not fit: missing {missing}, unexpected {unexpected}")
    return model.to(_DEVICE)


def _training(request, model, source, batch):
    model.train()
    target = batch["target_word_ids"]
    inputs = {**source, "decoder_input_ids": target[:, :-1], "decoder_attention_mask": (target[:, :-1] > 0).long()}
    labels = target[:, 1:].masked_fill(target[:, 1:] == 0, -100).reshape(-1)

    def loss_of(inputs, labels):
        logits = model(**inputs).logits
        return torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]).float(), labels, label_smoothing=request["label_smoothing"]
        )

    loss_of = torch.compile(loss_of) if request["way"] == "compile" else loss_of
    optimizer = fused_adamw(
        model, **{name: request[name] for name in ("learning_rate", "weight_decay", "beta_2", "epsilon")}
    )
    is_bfloat16 = request["precision"] == "bfloat16"

    def call(is_shown):
        optimizer.zero_grad()
        with torch.autocast(_DEVICE, torch.bfloat16) if is_bfloat16 else contextlib.nullcontext():
            loss = loss_of(inputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.item()}

    return call


def _decoding(request, model, source):
    model.eval()
    for part in (model.config, model.generation_config):
        part.decoder_start_token_id, part.eos_token_id, part.pad_token_id = (
            request[name] for name in ("begin_id", "end_id", "pad_id")
        )
    num_beams = request["num_beams"]
    search = {"length_penalty": 0.0, "early_stopping": "never", "num_return_sequences": num_beams}

    def call(is_shown):
        with torch.inference_mode():
            decoded = model.generate(
                **source,
                num_beams=num_beams,
                max_new_tokens=request["length"],
                do_sample=False,
                use_cache=True,
                return_dict_in_generate=True,
                output_scores=is_shown,
                **(search if num_beams > 1 else {}),
            )
        ids = decoded.sequences[:, 1:].cpu().numpy()
        if not is_shown:
            return None
        scores = decoded.sequences_scores.view(-1, num_beams).tolist() if num_beams > 1 else None
        return {"ids": ids.reshape(-1, num_beams, ids.shape[-1]).tolist(), "scores": scores}

    return call


answer = speed_answers.answers_of_calls(make)
