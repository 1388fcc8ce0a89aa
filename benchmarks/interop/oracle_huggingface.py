"""transformers as a process: run by benchmarks.interop.interop_huggingface, not by hand.

    HF_ENV/bin/python benchmarks/interop/oracle_huggingface.py

The interpreter is one with benchmarks/requirements-hf.txt; sentence-transformers is asked too where it is installed.
Nothing else is imported. A line of JSON on stdin is a request, a line of JSON on stdout its answer; the first line has
the versions. Requests, each with a model's directory:

- run, with inputs_file and outputs_file: the class that config.json names, by from_pretrained: what it says is missing,
  unexpected or of another shape; its outputs on a batch under the names of keras_bert_app.interop.parity.
- tokenize, with texts: the ids, segment ids and class of AutoTokenizer.
- embed, with texts: means of the last layer over the real pieces, of length 1; by AutoModel and by
  sentence-transformers.
"""

import importlib.metadata
import json
import os
import sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what an import prints is no answer
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def run(directory, inputs_file, outputs_file):
    config = transformers.BertConfig.from_pretrained(directory)
    name = (config.architectures or ["BertForPreTraining"])[0]
    model, report = getattr(transformers, name).from_pretrained(
        directory, output_loading_info=True, attn_implementation="eager"
    )
    with np.load(inputs_file) as arrays:
        batch = {key: torch.from_numpy(arrays[key]).long() for key in arrays.files}
    arguments = {
        "input_ids": batch["input_word_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["input_type_ids"],
    }
    with torch.no_grad():
        encoded = getattr(model, "bert", model)(**arguments, output_hidden_states=True)
        if name == "BertForMultipleChoice":  # of one choice each
            arguments = {key: values[:, None] for key, values in arguments.items()}
        whole = model(**arguments)
    first, *layers = encoded.hidden_states
    outputs = {"embedding_output": first, **{f"layer_{i}": state for i, state in enumerate(layers)}}
    if encoded.pooler_output is not None:
        outputs["pooled_output"] = encoded.pooler_output
    rows = torch.arange(len(batch["masked_lm_positions"]))[:, None]
    if name == "BertForPreTraining":
        outputs["mlm_logits"] = whole.prediction_logits[rows, batch["masked_lm_positions"]]
        outputs["nsp_logits"] = whole.seq_relationship_logits
    elif name == "BertForMaskedLM":
        outputs["mlm_logits"] = whole.logits[rows, batch["masked_lm_positions"]]
    elif name == "BertForNextSentencePrediction":
        outputs["nsp_logits"] = whole.logits
    elif name == "BertForQuestionAnswering":
        outputs["classifier_logits"] = torch.stack([whole.start_logits, whole.end_logits], -1)
    elif name != "BertModel":
        outputs["classifier_logits"] = whole.logits
    np.savez(outputs_file, **{key: values.numpy() for key, values in outputs.items()})
    return {"class": name, **{key: sorted(map(str, names)) for key, names in report.items() if key.endswith("_keys")}}


def tokenize(directory, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    encoded = tokenizer(texts)
    return {"class": type(tokenizer).__name__, "ids": encoded["input_ids"], "type_ids": encoded["token_type_ids"]}


def embed(directory, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = transformers.AutoModel.from_pretrained(directory)(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    answer = {"transformers": means.tolist()}
    try:
        import sentence_transformers
    except ImportError:
        return answer
    model = sentence_transformers.SentenceTransformer(directory, device="cpu")
    name = f"sentence-transformers {sentence_transformers.__version__}"
    return answer | {name: model.encode(texts, show_progress_bar=False).tolist()}


def main():
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers")}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        do = {"run": run, "tokenize": tokenize, "embed": embed}[request.pop("do")]
        print(json.dumps(do(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
