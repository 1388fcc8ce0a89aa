"""What Hugging Face's transformers computes from a model directory. Imports nothing of this project: run it anywhere.

python huggingface_reference.py MODEL_DIRECTORY INPUTS.npz OUTPUTS.npz

INPUTS.npz holds int32 inputs/input_word_ids, input_mask, input_type_ids [B, S] and masked_lm_positions [B, P], as any
parity.npz does. OUTPUTS.npz gets the same, outputs/NAME in float32, and made_by: it can be a parity.npz beside a model.
Needs torch and transformers; written for transformers 5.23.
"""

import sys

import numpy as np
import torch
import transformers

# Architecture -> (its output layer, whether that stands on the pooled output).
TASKS = {
    "BertForSequenceClassification": ("classifier", True),
    "BertForMultipleChoice": ("classifier", True),
    "BertForTokenClassification": ("classifier", False),
    "BertForQuestionAnswering": ("qa_outputs", False),
}


def compute(path, batch):
    """Outputs by name, of the parts whose tensors the directory holds."""
    config = transformers.BertConfig.from_pretrained(path, local_files_only=True)
    architecture = (config.architectures or [""])[0]
    # Without a task it is taken for the whole, whatever part it names; what is missing is left out below.
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
    pooler_is_there = not any(".pooler." in key for key in missing)
    lost = [key for key in missing if ".embeddings." in key or ".encoder." in key]
    if lost:
        sys.exit(f"transformers {transformers.__version__} finds no {lost[0]} and {len(lost) - 1} more")
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
        pooled = bert.pooler_output if pooler_is_there else None
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


def main():
    path, inputs_file, outputs_file = sys.argv[1:]
    with np.load(inputs_file) as arrays:
        inputs = {name: arrays[name] for name in arrays.files if name.startswith("inputs/")}
    outputs = compute(path, {name.removeprefix("inputs/"): values for name, values in inputs.items()})
    np.savez(
        outputs_file,
        made_by=f"transformers {transformers.__version__} on torch {torch.__version__}",
        **inputs,
        **{f"outputs/{name}": values for name, values in outputs.items()},
    )


if __name__ == "__main__":
    main()
