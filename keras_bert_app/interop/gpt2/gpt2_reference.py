"""Computes the outputs of a GPT-2 directory with transformers.

reference_answers runs this script in an environment of torch and transformers. The script imports nothing of this
project. The model is its directory. The script is for transformers 5.23.
"""

import numpy as np
import torch
import transformers

PACKAGES = ("transformers", "torch")


def compute(path: str, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of a model.

    Args:
        path: str. Directory of the model.
        batch: dict of int32 arrays. The inputs by name.

    Returns:
        dict name -> float32 array.
    """
    model = transformers.GPT2LMHeadModel.from_pretrained(
        path, local_files_only=True, use_safetensors=True, attn_implementation="eager"
    )
    model = model.float().eval()
    with torch.no_grad():
        answer = model(
            input_ids=torch.from_numpy(batch["input_word_ids"]).long(),
            attention_mask=torch.from_numpy(batch["input_mask"]).long(),
            output_hidden_states=True,
        )
    embedding_output, *layers = answer.hidden_states
    outputs = {"embedding_output": embedding_output, **{f"layer_{i}": state for i, state in enumerate(layers)}}
    return {name: values.numpy() for name, values in {**outputs, "lm_logits": answer.logits}.items()}
