"""Golden values of BERT from Hugging Face transformers, one .npz for each variant.

Reference: transformers 5.23.0 (BertForPreTraining, eager attention) on torch
2.13.0, CPU. See README.md beside this file for the environment.

    python tests/golden/generate_huggingface.py

Writes, for each variant "gelu" (exact) and "gelu_new" (tanh):
  huggingface_VARIANT_config.json   config.json as save_pretrained writes it
  huggingface_VARIANT.npz           arrays under these keys:
    metadata                        a JSON string: versions, seed, errors
    state_dict/NAME                 float32, every entry of model.state_dict()
    inputs/...                      int32, this project's batch names
    outputs/hidden_state_I          [B, S, H], I = 0 (embeddings) .. layers
    outputs/attention_probs_I       [B, N, S, S], I = 0 .. layers - 1
    outputs/pooler_output           [B, H]
    outputs/prediction_logits       [B, S, V]
    outputs/masked_prediction_logits  [B, P, V]
    outputs/seq_relationship_logits [B, 2]

The outputs come from a float64 run on the float32 weights, rounded to float32.
Their error is half a unit in the last place at most. The error of a float32 run
is in metadata["float32_max_abs_error"].
"""

import json
import os
import tempfile

import numpy as np
import torch
import transformers

transformers.utils.logging.disable_progress_bar()

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20181011
VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}

# B batch, S sequence, P predictions, V vocabulary, H hidden, N heads. All sizes
# are different, so that a comparison notices swapped axes.
BATCH_SIZE, SEQ_LENGTH, MAX_PREDICTIONS = 5, 29, 7
CONFIG = dict(
    vocab_size=97,
    hidden_size=22,
    num_attention_heads=2,
    intermediate_size=37,
    num_hidden_layers=3,
    max_position_embeddings=41,
    type_vocab_size=2,
    layer_norm_eps=1e-12,
)
LENGTHS = (29, 23, 17, 11, 2)
FIRST_SEGMENT = (13, 23, 5, 10, 1)  # pieces of segment A; row 1 has no B


def check_versions():
    """Raises SystemExit unless the reference has the versions in VERSIONS."""
    installed = {
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
    }
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")


def randomize(model):
    """Fills every parameter in place, in the order of named_parameters().

    Kernels and tables get a standard deviation of 0.3, fifteen times BERT's,
    so that attention is far from uniform and an error in any part is visible.
    Gains are near 1 and biases are near 0, but never equal to these values. The
    MLM transform gets 0.05. The variance in its LayerNorm is then so small that
    an epsilon of 1e-5 instead of 1e-12 moves the logits by more than 1e-4.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape)
            if name.endswith("LayerNorm.weight"):
                parameter.copy_(1.0 + 0.2 * noise)
            elif name.startswith("cls.predictions.transform.dense"):
                parameter.copy_(0.05 * noise)
            else:
                parameter.copy_(0.3 * noise)


def make_inputs():
    """Returns the batch as int32 arrays [B, S], positions [B, P]."""
    rng = np.random.default_rng(SEED)
    steps = np.arange(SEQ_LENGTH)[None, :]
    lengths = np.array(LENGTHS)[:, None]
    mask = steps < lengths
    ids = rng.integers(1, CONFIG["vocab_size"], (BATCH_SIZE, SEQ_LENGTH))
    # Row 2 has non-zero ids at its padding, because the mask, and not the id,
    # marks padding.
    keep = mask | (np.arange(BATCH_SIZE)[:, None] == 2)
    types = mask & (steps >= np.array(FIRST_SEGMENT)[:, None])
    positions = np.zeros((BATCH_SIZE, MAX_PREDICTIONS), np.int32)
    for row, length in enumerate(LENGTHS):
        chosen = rng.permutation(length)[: MAX_PREDICTIONS - row % 3]
        positions[row, : len(chosen)] = np.sort(chosen)  # unused slots stay 0
    batch = {
        "input_word_ids": np.where(keep, ids, 0),
        "input_mask": mask,
        "input_type_ids": types,
        "masked_lm_positions": positions,
    }
    return {name: value.astype(np.int32) for name, value in batch.items()}


def run(model, inputs):
    """Returns the outputs as a dict of arrays in the model's precision."""
    tensors = {k: torch.from_numpy(v).long() for k, v in inputs.items()}
    with torch.no_grad():
        result = model(
            input_ids=tensors["input_word_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["input_type_ids"],
            output_hidden_states=True,
            output_attentions=True,
        )
        pooled = model.bert(
            input_ids=tensors["input_word_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["input_type_ids"],
        ).pooler_output
    logits = result.prediction_logits.numpy()
    outputs = {
        "pooler_output": pooled.numpy(),
        "prediction_logits": logits,
        "masked_prediction_logits": np.take_along_axis(
            logits, inputs["masked_lm_positions"][..., None].astype(np.int64), axis=1
        ),
        "seq_relationship_logits": result.seq_relationship_logits.numpy(),
    }
    for i, state in enumerate(result.hidden_states):
        outputs[f"hidden_state_{i}"] = state.numpy()
    for i, probs in enumerate(result.attentions):
        outputs[f"attention_probs_{i}"] = probs.numpy()
    return outputs


def generate(hidden_act):
    """Writes the config and the .npz of one variant."""
    config = transformers.BertConfig(hidden_act=hidden_act, **CONFIG)
    config._attn_implementation = "eager"  # only "eager" returns probabilities
    torch.manual_seed(SEED)
    model = transformers.BertForPreTraining(config).eval()
    torch.manual_seed(SEED)  # the draws of the constructor have no effect
    randomize(model)

    stem = os.path.join(OUTPUT_DIR, f"huggingface_{hidden_act}")
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as f:
            config_json = f.read()
    with open(f"{stem}_config.json", "w", encoding="utf-8") as f:
        f.write(config_json.rstrip("\n") + "\n")

    state_dict = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    inputs = make_inputs()
    single = run(model, inputs)
    double = run(model.double(), inputs)
    outputs = {name: value.astype(np.float32) for name, value in double.items()}
    errors = {name: float(np.abs(single[name] - double[name]).max()) for name in double}

    metadata = {
        "reference": "transformers.BertForPreTraining, attn_implementation=eager",
        "versions": VERSIONS,
        "seed": SEED,
        "hidden_act": hidden_act,
        "outputs": "float64 run on the float32 weights, rounded to float32",
        "tied": "cls.predictions.decoder.weight is "
        "bert.embeddings.word_embeddings.weight and cls.predictions.decoder.bias "
        "is cls.predictions.bias; both copies are stored",
        "float32_max_abs_error": errors,
    }
    arrays = {"metadata": np.array(json.dumps(metadata))}
    arrays.update({f"state_dict/{k}": v for k, v in state_dict.items()})
    arrays.update({f"inputs/{k}": v for k, v in inputs.items()})
    arrays.update({f"outputs/{k}": v for k, v in outputs.items()})
    np.savez_compressed(f"{stem}.npz", **arrays)
    size = os.path.getsize(f"{stem}.npz")
    print(f"{stem}.npz {size} bytes, float32 error at most {max(errors.values()):.2g}")


def main():
    check_versions()
    for hidden_act in ("gelu", "gelu_new"):
        generate(hidden_act)


if __name__ == "__main__":
    main()
