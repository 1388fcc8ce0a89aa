"""Loads models, tokenizes and embeds with Hugging Face's transformers, for interop_huggingface and embedding_table.

reference_answers runs this script in an environment with benchmarks/requirements-hf.txt. It uses sentence-transformers
too if that package is installed. A request has `do` and the `directory` of a model. `do` is one of these:

- load: loads a model of the class that config.json names. The answer has the name of the class, and the keys that are
  missing, unexpected or of another shape.
- tokenize: tokenizes `texts` with AutoTokenizer. The answer has the ids, the segment ids and the tokenizer's class.
- embed: the answer has the vectors of `texts`, from AutoModel and from sentence-transformers. AutoModel's vectors are
  means of the last layer over all pieces but padding, scaled to length 1.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

PACKAGES = ("torch", "transformers", "tokenizers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def load(directory):
    config = transformers.BertConfig.from_pretrained(directory)
    name = (config.architectures or ["BertForPreTraining"])[0]
    _, report = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
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
    vectors = {"transformers": means.tolist()}
    try:
        import sentence_transformers
    except ImportError:
        return vectors
    model = sentence_transformers.SentenceTransformer(directory, device="cpu")
    name = f"sentence-transformers {sentence_transformers.__version__}"
    return vectors | {name: model.encode(texts, show_progress_bar=False).tolist()}


def answer(request):
    """The answer to a request; see the module's docstring."""
    return {"load": load, "tokenize": tokenize, "embed": embed}[request.pop("do")](**request)
