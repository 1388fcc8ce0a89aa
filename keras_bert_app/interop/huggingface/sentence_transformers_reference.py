"""Computes the sentence vectors of a folder with sentence-transformers.

reference_answers runs this script in an environment of sentence-transformers. The script imports nothing of this
project. It is for sentence-transformers 6.2.
"""

from typing import Any

import numpy as np

PACKAGES = ("sentence-transformers", "transformers", "torch")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Computes the vectors of texts without a named prompt, and with each of some prompts.

    Args:
        request: dict. model: path of the folder. texts: list of str. prompt_names: list of str. outputs_file: .npz to
            write. It gets float32 [N, D]: arr_0 without a named prompt, arr_1 and more for prompt_names in order.

    Returns:
        dict. Empty.
    """
    import sentence_transformers  # the caller sees in the versions whether there is one

    model = sentence_transformers.SentenceTransformer(request["model"], device="cpu", local_files_only=True).float()
    model.truncate_dim = None
    names = [None, *request["prompt_names"]]
    np.savez(request["outputs_file"], *(model.encode(request["texts"], prompt_name=name) for name in names))
    return {}
