"""Maps the names of transformers' BERT state dicts from and to our paths.

torch stores dense kernels as [output, input]. Ours are [input, output]. In the tables {} is the number of a layer.
"""

import re

# transformers' class -> (task of its output layer, its parts).
ARCHITECTURES = {
    "BertForPreTraining": ("", ("encoder", "pooler", "masked_lm", "next_sentence")),
    "BertForMaskedLM": ("", ("encoder", "masked_lm")),
    "BertForNextSentencePrediction": ("", ("encoder", "pooler", "next_sentence")),
    "BertModel": ("", ("encoder", "pooler")),
    "BertLMHeadModel": ("", ("encoder", "masked_lm")),
    "BertForSequenceClassification": ("sequence_classification", ("encoder", "pooler", "classifier")),
    "BertForTokenClassification": ("token_classification", ("encoder", "classifier")),
    "BertForQuestionAnswering": ("question_answering", ("encoder", "classifier")),
    "BertForMultipleChoice": ("multiple_choice", ("encoder", "pooler", "classifier")),
}

_ARRAYS = {
    "encoder/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "encoder/embeddings/position_embeddings": "bert.embeddings.position_embeddings.weight",
    "encoder/embeddings/token_type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "masked_lm/output_bias": "cls.predictions.bias",
    "masked_lm/output_embeddings": "cls.predictions.decoder.weight",
}
_LAYER_NORMS = {
    "encoder/embeddings/layer_norm": "bert.embeddings.LayerNorm",
    "encoder/layer_{}/attention_layer_norm": "bert.encoder.layer.{}.attention.output.LayerNorm",
    "encoder/layer_{}/output_layer_norm": "bert.encoder.layer.{}.output.LayerNorm",
    "masked_lm/layer_norm": "cls.predictions.transform.LayerNorm",
}
_DENSE = {
    "encoder/layer_{}/attention/query": "bert.encoder.layer.{}.attention.self.query",
    "encoder/layer_{}/attention/key": "bert.encoder.layer.{}.attention.self.key",
    "encoder/layer_{}/attention/value": "bert.encoder.layer.{}.attention.self.value",
    "encoder/layer_{}/attention/output": "bert.encoder.layer.{}.attention.output.dense",
    "encoder/layer_{}/intermediate": "bert.encoder.layer.{}.intermediate.dense",
    "encoder/layer_{}/output": "bert.encoder.layer.{}.output.dense",
    "encoder/pooler": "bert.pooler.dense",
    "masked_lm/transform": "cls.predictions.transform.dense",
    "next_sentence/projection": "cls.seq_relationship",
    "classifier": "classifier",
}
_TO_HUGGINGFACE = _ARRAYS | {
    f"{ours}/{part}": f"{theirs}.{huggingface_part}"
    for table, parts in (
        (_LAYER_NORMS, {"gamma": "weight", "beta": "bias"}),
        (_DENSE, {"kernel": "weight", "bias": "bias"}),
    )
    for ours, theirs in table.items()
    for part, huggingface_part in parts.items()
}
_FROM_HUGGINGFACE = {theirs: ours for ours, theirs in _TO_HUGGINGFACE.items()}
# Prefixes that BertModel, torch.nn.DataParallel, torch.compile and models with a BERT inside put before the names.
_PREFIXES = re.compile(r"(?:(?:module|model|_orig_mod|bert)\.)+")
_OLD_PARTS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def plain_name(name: str) -> str:
    """Removes prefixes from a state dict's name, and replaces the old names gamma and beta.

    Args:
        name: str. Name in a state dict.

    Returns:
        str. The name as transformers writes it today. Names of the encoder and the pooler start with "bert.".
    """
    prefix = _PREFIXES.match(name)
    name = name[prefix.end() :] if prefix else name
    for old, new in _OLD_PARTS.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return f"bert.{name}" if name.split(".", 1)[0] in ("embeddings", "encoder", "pooler") else name


def our_path(name: str, num_hidden_layers: int) -> str | None:
    """Gives our path of a plain name.

    Args:
        name: str. See plain_name.
        num_hidden_layers: int. Number of layers of the encoder.

    Returns:
        str or None. None if a BERT with this number of layers has no such tensor.
    """
    number = re.search(r"(?<=\.layer\.)(?:0|[1-9][0-9]{0,8})(?=\.)", name)
    if not number:
        return None if "{}" in name else _FROM_HUGGINGFACE.get(name)
    path = _FROM_HUGGINGFACE.get(f"{name[: number.start()]}{{}}{name[number.end() :]}")
    return path.format(number[0]) if path and int(number[0]) < num_hidden_layers else None


def huggingface_name(path: str) -> str:
    """Gives the plain name of one of our paths.

    Args:
        path: str. Our path. Query, key and value are separate.

    Returns:
        str. See plain_name.
    """
    number = re.search(r"(?<=/layer_)[0-9]+", path)
    if not number:
        return _TO_HUGGINGFACE[path]
    return _TO_HUGGINGFACE[f"{path[: number.start()]}{{}}{path[number.end() :]}"].format(number[0])


def transposed(path: str, array):
    """Converts a dense kernel between torch's layout and ours. Returns other arrays unchanged.

    Args:
        path: str. Our path.
        array: array. Tensor of any shape.

    Returns:
        array. The transposed kernel, or the same array.
    """
    return array.T if path.endswith("/kernel") else array
