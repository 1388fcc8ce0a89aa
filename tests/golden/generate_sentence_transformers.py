"""Golden folders of sentence-transformers: a small model as the library saves it, and its vectors.

Reference: sentence-transformers 6.2.0 on transformers 5.23.0 and torch 2.13.0, CPU. See README.md beside this file for
the environment.

    python tests/golden/generate_sentence_transformers.py

Writes sentence_transformers/FOLDER/ for two folders, and sentence_transformers/vectors.npz:
    new      as SentenceTransformer.save writes it: mean, Normalize, prompts of query and document, rows of 9 tokens,
             which only the tokenizer's file states
    old      in the layout before version 5, with the model in a subfolder: [CLS] and mean, no Normalize, a default
             prompt, inner product
    vectors.npz   texts, str [N]; FOLDER, float32 [N, D], the vectors without a named prompt; FOLDER/PROMPT, those with
             a prompt; metadata, a JSON string
"""

import json
import os
import shutil
import tempfile

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

transformers.utils.logging.disable_progress_bar()

OUTPUT_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sentence_transformers")
SEED = 20190827
VERSIONS = {"sentence-transformers": "6.2.0", "transformers": "5.23.0", "torch": "2.13.0"}
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##a", "##b", "query", "text", ":", ".")
CONFIG = dict(
    vocab_size=len(PIECES),
    hidden_size=14,
    num_attention_heads=2,
    intermediate_size=17,
    num_hidden_layers=2,
    max_position_embeddings=23,
    type_vocab_size=2,
)
TEXTS = ("a b. c", "", "AB d zz", "e f g h a b c d e f g h a b c d e f g h a b c d")
PROMPTS = {"query": "query: ", "document": "text a: "}
POOLING = {
    "word_embedding_dimension": CONFIG["hidden_size"],
    "pooling_mode_cls_token": True,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_sqrt_len_tokens": False,
}


def check_versions():
    """Raises SystemExit unless the reference has the versions in VERSIONS."""
    modules = (sentence_transformers, transformers, torch)
    installed = {name: module.__version__.split("+")[0] for name, module in zip(VERSIONS, modules, strict=True)}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")


def save_model(directory):
    """Saves a BertModel whose parameters are random, and its tokenizer."""
    model = transformers.BertModel(transformers.BertConfig(**CONFIG)).eval()
    torch.manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(1.0 + 0.2 * noise if name.endswith("LayerNorm.weight") else 0.3 * noise)
    model.save_pretrained(directory)
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    transformers.BertTokenizer(vocab=vocabulary, do_lower_case=True).save_pretrained(directory)


def write_json(directory, name, content):
    os.makedirs(os.path.dirname(os.path.join(directory, name)), exist_ok=True)
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2) + "\n")


def write_old(directory):
    """Writes a folder as sentence-transformers before version 5 did."""
    save_model(os.path.join(directory, "0_Transformer"))
    kinds = {"0_Transformer": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    write_json(directory, "modules.json", modules)
    write_json(directory, "1_Pooling/config.json", POOLING)
    lengths = {"max_seq_length": 11, "do_lower_case": False}
    write_json(directory, "0_Transformer/sentence_bert_config.json", lengths)
    prompts = {"prompts": PROMPTS, "default_prompt_name": "document", "similarity_fn_name": "dot"}
    write_json(directory, "config_sentence_transformers.json", prompts)


def main():
    check_versions()
    shutil.rmtree(OUTPUT_DIR, ignore_errors=True)
    arrays = {"texts": np.array(TEXTS)}
    with tempfile.TemporaryDirectory() as directory:
        save_model(directory)
        encoder = Transformer(directory, max_seq_length=9)
        modules = [encoder, Pooling(CONFIG["hidden_size"], "mean"), Normalize()]
        model = sentence_transformers.SentenceTransformer(modules=modules, prompts=PROMPTS, device="cpu")
        model.save(os.path.join(OUTPUT_DIR, "new"), create_model_card=False)
    write_old(os.path.join(OUTPUT_DIR, "old"))
    for folder in ("new", "old"):
        model = sentence_transformers.SentenceTransformer(os.path.join(OUTPUT_DIR, folder), device="cpu")
        arrays[folder] = model.encode(list(TEXTS))
        for name in PROMPTS:
            arrays[f"{folder}/{name}"] = model.encode(list(TEXTS), prompt_name=name)
    metadata = json.dumps({"versions": VERSIONS, "seed": SEED, "prompts": PROMPTS})
    np.savez(os.path.join(OUTPUT_DIR, "vectors.npz"), metadata=metadata, **arrays)


if __name__ == "__main__":
    main()
