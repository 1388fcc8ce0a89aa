"""Golden files of transformers: small models as transformers saves them, and their outputs.

Reference: transformers 5.23.0 (eager attention) on torch 2.13.0, CPU. See README.md beside this file for the
environment.

    python tests/golden/generate_huggingface_files.py

Writes huggingface_files/MODEL/ for each of MODELS, with save_pretrained of the model and of its tokenizer, if it has
one. Also writes huggingface_files/outputs.npz with these keys:
    metadata                 a JSON string: versions, seed
    inputs/...               int32 [B, S], this project's batch names
    outputs/MODEL/...        a float64 run, rounded to float32: last_hidden_state [B, S, H], pooler_output [B, H], and
                             the logits under the names of the class: prediction_logits [B, S, V],
                             seq_relationship_logits [B, 2], logits, start_logits, end_logits. Only for float32 files
    tokenizer/texts          str [N]
    tokenizer/MODEL/ids      a JSON string: the ids of each text between [CLS] and [SEP]
"""

import json
import os
import shutil

import numpy as np
import torch
import transformers

transformers.utils.logging.disable_progress_bar()

OUTPUT_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "huggingface_files")
SEED = 20191126
VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}

SEQ_LENGTH = 7
LENGTHS = (7, 5, 3, 2)
CONFIG = dict(
    vocab_size=43,
    hidden_size=14,
    num_attention_heads=2,
    intermediate_size=17,
    num_hidden_layers=1,
    max_position_embeddings=13,
    type_vocab_size=2,
)
LABELS = {
    "sequence_classification": ("negative", "neutral", "positive"),
    "token_classification": ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
}
# model -> (class, config, dtype of the file, whether in shards)
MODELS = {
    "pretraining": ("BertForPreTraining", {}, "float32", False),
    "pretraining_sharded": ("BertForPreTraining", {"num_hidden_layers": 2}, "float32", True),
    "masked_lm": ("BertForMaskedLM", {"hidden_act": "gelu_new"}, "float32", False),
    "masked_lm_untied": ("BertForMaskedLM", {"tie_word_embeddings": False}, "float32", False),
    "next_sentence": ("BertForNextSentencePrediction", {}, "float32", False),
    "encoder": ("BertModel", {}, "float32", False),
    "encoder_float16": ("BertModel", {}, "float16", False),
    "encoder_bfloat16": ("BertModel", {}, "bfloat16", False),
    "sequence_classification": ("BertForSequenceClassification", {}, "float32", False),
    "token_classification": ("BertForTokenClassification", {}, "float32", False),
    "question_answering": ("BertForQuestionAnswering", {}, "float32", False),
    "multiple_choice": ("BertForMultipleChoice", {}, "float32", False),
}
PIECES = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz",
    "##a",
    "##e",
    "##n",
    "##s",
    "the",
    "new",
    ",",
    ".",
    "##ing",
)
# model -> (vocabulary, do_lower_case) of the tokenizer in its directory. transformers 5 writes no vocab.txt.
TOKENIZERS = {"pretraining": (PIECES, True), "masked_lm": (PIECES[:-3] + ("The", "\u00e9", "##\u00e9"), False)}
TEXTS = (
    "The new pen, the sea.",
    "\u00c9t\u00e9 s\u00e9en",
    "a  [MASK] e",
    "Being new\u2026 \u4e2d\u6587",
    "th\u00e9",
    "",
)


def check_versions():
    """Raises SystemExit unless the reference has the versions in VERSIONS."""
    installed = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")


def make_model(name):
    """The model of a name. Every parameter is a random number: gains are near 1, and all others near 0."""
    class_name, overrides, _, _ = MODELS[name]
    config = transformers.BertConfig(**{**CONFIG, **overrides})
    if name in LABELS:
        config.id2label = dict(enumerate(LABELS[name]))
        config.label2id = {label: i for i, label in enumerate(LABELS[name])}
    config._attn_implementation = "eager"
    model = getattr(transformers, class_name)(config).eval()
    torch.manual_seed(SEED)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(1.0 + 0.2 * noise if parameter_name.endswith("LayerNorm.weight") else 0.3 * noise)
    return model


def make_inputs():
    """The batch as int32 arrays [B, S]."""
    rng = np.random.default_rng(SEED)
    steps, lengths = np.arange(SEQ_LENGTH)[None, :], np.array(LENGTHS)[:, None]
    mask = steps < lengths
    ids = np.where(mask, rng.integers(1, CONFIG["vocab_size"], mask.shape), 0)
    batch = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": mask & (steps >= lengths // 2)}
    return {name: value.astype(np.int32) for name, value in batch.items()}


def run(name, model, inputs):
    """The outputs of a model in float64, rounded to float32. For multiple choice, two rows form one example."""
    tensors = dict(
        zip(
            ("input_ids", "attention_mask", "token_type_ids"),
            (torch.from_numpy(value).long() for value in inputs.values()),
            strict=True,
        )
    )
    with torch.no_grad():
        encoder = getattr(model, "bert", model).double()(**tensors)
        if name == "multiple_choice":
            tensors = {key: value.reshape(-1, 2, SEQ_LENGTH) for key, value in tensors.items()}
        whole = model.double()(**tensors)
    outputs = {"last_hidden_state": encoder.last_hidden_state}
    if encoder.pooler_output is not None:
        outputs["pooler_output"] = encoder.pooler_output
    outputs |= {key: value for key, value in whole.items() if key.endswith("logits")}
    return {f"outputs/{name}/{key}": value.float().numpy() for key, value in outputs.items()}


def write_tokenizer(name):
    """Saves the tokenizer beside its model and returns its ids of TEXTS."""
    pieces, do_lower_case = TOKENIZERS[name]
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = transformers.BertTokenizer(vocab=ids, do_lower_case=do_lower_case)
    tokenizer.save_pretrained(os.path.join(OUTPUT_DIR, name))
    ids = [tokenizer(text)["input_ids"][1:-1] for text in TEXTS]
    return {f"tokenizer/{name}/ids": np.array(json.dumps(ids))}


def main():
    check_versions()
    shutil.rmtree(OUTPUT_DIR, ignore_errors=True)
    inputs = make_inputs()
    arrays = {
        "metadata": np.array(json.dumps({"versions": VERSIONS, "seed": SEED})),
        "tokenizer/texts": np.array(TEXTS),
        **{f"inputs/{name}": value for name, value in inputs.items()},
    }
    for name, (_, _, dtype, in_shards) in MODELS.items():
        model = make_model(name)
        model.to(getattr(torch, dtype)).save_pretrained(
            os.path.join(OUTPUT_DIR, name), **({"max_shard_size": "6KB"} if in_shards else {})
        )
        if dtype == "float32":
            arrays |= run(name, model, inputs)
        if name in TOKENIZERS:
            arrays |= write_tokenizer(name)
    np.savez_compressed(os.path.join(OUTPUT_DIR, "outputs.npz"), **arrays)


if __name__ == "__main__":
    main()
