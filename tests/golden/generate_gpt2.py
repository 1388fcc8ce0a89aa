"""Golden values of GPT-2 from Hugging Face transformers.

Reference: transformers 5.23.0 (GPT2LMHeadModel, eager attention, and its generate) on torch 2.13.0, CPU. See README.md
beside this file for the environment.

    python tests/golden/generate_gpt2.py

Writes gpt2/config.json and gpt2/model.safetensors as save_pretrained writes them, and gpt2.npz with these arrays:
    metadata                  a JSON string: versions and seed
    inputs/...                int32 [B, S], this project's batch names
    outputs/hidden_state_I    [B, S, H], I = 0 (embeddings) .. layers
    outputs/attention_probs_I [B, N, S, S], I = 0 .. layers - 1
    outputs/lm_logits         [B, S, V]
    generated/PENALTY_I       int32 [T], row I without padding and its greedy continuation by NEW_TOKENS pieces with a
                              repetition penalty
The outputs come from a float64 run on the float32 weights, rounded to float32. Outputs at padding have no meaning.
"""

import json
import os

import numpy as np
import torch
import transformers

transformers.utils.logging.disable_progress_bar()

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20190214
VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}
LENGTHS, NEW_TOKENS, PENALTIES = (19, 11, 3), 13, (1.0, 1.3)
# Pieces that texts do not have: [PAD], [UNK], [CLS], [MASK].
NEVER = [0, 1, 2, 4]
CONFIG = dict(
    vocab_size=97,
    n_embd=22,
    n_layer=3,
    n_head=2,
    n_inner=37,
    n_positions=41,
    layer_norm_epsilon=1e-5,
    initializer_range=0.3,
    bos_token_id=2,
    eos_token_id=3,
    pad_token_id=0,
    attn_implementation="eager",
)


def main():
    installed = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if installed != VERSIONS:
        raise SystemExit(f"expected {VERSIONS}, found {installed}")
    torch.manual_seed(SEED)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG)).eval()
    for name, values in model.named_parameters():
        if name.endswith("bias") or "ln_" in name:  # zeros and ones would hide a swapped tensor
            values.data += 0.3 * torch.randn(values.shape)
    model.save_pretrained(os.path.join(OUTPUT_DIR, "gpt2"))
    os.remove(os.path.join(OUTPUT_DIR, "gpt2", "generation_config.json"))

    generator = np.random.RandomState(SEED)
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    ids = generator.randint(5, CONFIG["vocab_size"], mask.shape) * mask
    ids[:, 0] = CONFIG["bos_token_id"]
    arrays = {"inputs/input_word_ids": ids, "inputs/input_mask": mask, "inputs/input_type_ids": ids * 0}
    arrays = {name: values.astype(np.int32) for name, values in arrays.items()}
    with torch.no_grad():
        for penalty in PENALTIES:
            for row, length in enumerate(LENGTHS):
                written = model.generate(
                    torch.tensor(ids[row : row + 1, :length]),
                    attention_mask=torch.ones(1, length, dtype=torch.long),
                    do_sample=False,
                    max_new_tokens=NEW_TOKENS,
                    repetition_penalty=penalty,
                    suppress_tokens=NEVER,
                )
                arrays[f"generated/{penalty}_{row}"] = written[0].numpy().astype(np.int32)
        answer = model.double()(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask).long(),
            output_hidden_states=True,
            output_attentions=True,
        )
    outputs = {"lm_logits": answer.logits}
    outputs |= {f"hidden_state_{i}": state for i, state in enumerate(answer.hidden_states)}
    outputs |= {f"attention_probs_{i}": each for i, each in enumerate(answer.attentions)}
    arrays |= {f"outputs/{name}": values.numpy().astype(np.float32) for name, values in outputs.items()}
    metadata = json.dumps({"versions": VERSIONS, "seed": SEED, "new_tokens": NEW_TOKENS, "never": NEVER})
    np.savez(os.path.join(OUTPUT_DIR, "gpt2.npz"), metadata=metadata, **arrays)


if __name__ == "__main__":
    main()
