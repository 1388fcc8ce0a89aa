"""Computes the outputs of a model directory with transformers.

reference_answers runs this script in an environment of torch and transformers. The script imports nothing of this
project. The model is its directory. The script is for transformers 5.23.
"""

import sys

import numpy as np
import torch
import transformers

PACKAGES = ("transformers", "torch")
# Architecture -> (its output layer, whether this layer reads the pooled output).
TASKS = {
    "BertForSequenceClassification": ("classifier", True),
    "BertForMultipleChoice": ("classifier", True),
    "BertForTokenClassification": ("classifier", False),
    "BertForQuestionAnswering": ("qa_outputs", False),
}


def compute(path: str, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of the parts whose tensors are in the directory.

    Args:
        path: str. Directory of the model.
        batch: dict of int32 arrays. The inputs by name.

    Returns:
        dict name -> float32 array.
    """
    config = transformers.BertConfig.from_pretrained(path, local_files_only=True)
    architecture = (config.architectures or [""])[0]
    # A model without a task is loaded as the class with all parts. The outputs of missing parts are left out below.
    model_class = getattr(transformers, architecture if architecture in TASKS else "BertForPreTraining")
    model, report = model_class.from_pretrained(
        path,
        config=config,
        local_files_only=True,
        use_safetensors=True,
        attn_implementation="eager",
        output_loading_info=True,
    )
    missing = sorted(map(str, report["missing_keys"]))
    has_pooler = not any(".pooler." in key for key in missing)
    missing_in_encoder = [key for key in missing if ".embeddings." in key or ".encoder." in key]
    if missing_in_encoder:
        sys.exit(
            f"transformers {transformers.__version__} finds no {missing_in_encoder[0]} and "
            f"{len(missing_in_encoder) - 1} more"
        )
    model = model.float().eval()
    tensors = {name: torch.from_numpy(values).long() for name, values in batch.items()}
    with torch.no_grad():
        bert = model.bert(
            input_ids=tensors["input_word_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["input_type_ids"],
            output_hidden_states=True,
        )
        embedding_output, *layers = bert.hidden_states
        outputs = {"embedding_output": embedding_output, **{f"layer_{i}": state for i, state in enumerate(layers)}}
        pooled = bert.pooler_output if has_pooler else None
        if pooled is not None:
            outputs["pooled_output"] = pooled
        if architecture in TASKS:
            name, is_pooled = TASKS[architecture]
            if not any(key.startswith(name) for key in missing):
                outputs["classifier_logits"] = getattr(model, name)(pooled if is_pooled else bert.last_hidden_state)
        else:
            rows = torch.arange(len(tensors["masked_lm_positions"]))[:, None]
            masked = bert.last_hidden_state[rows, tensors["masked_lm_positions"]]
            if not any(key.startswith("cls.predictions.") for key in missing):
                outputs["mlm_logits"] = model.cls.predictions(masked)
            if pooled is not None and not any(key.startswith("cls.seq_relationship.") for key in missing):
                outputs["nsp_logits"] = model.cls.seq_relationship(pooled)
    return {name: values.numpy() for name, values in outputs.items()}
