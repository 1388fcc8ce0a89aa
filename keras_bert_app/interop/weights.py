"""A BERT's weights outside of any model: what every reader of a format gives and every writer takes. numpy only."""

import dataclasses

import numpy as np

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.errors import UserError

# What the output layer of a fine-tuned model, "classifier", stands on.
TASKS = ("sequence_classification", "token_classification", "question_answering", "multiple_choice")
# Those whose output layer stands on the pooled output; the others' stands on every token.
POOLED_TASKS = ("sequence_classification", "multiple_choice")
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")  # transformers' names
_QUERY_KEY_VALUE = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class OwnHead:
    """The output layer of a fine-tuned run that no other layout has: with a BiLSTM, over a mean of tokens and so on.

    Attributes:
        description: fields of modeling.task_model.Head. labels: names of its outputs. tensors: dict path -> array.
    """

    description: dict
    labels: tuple
    tensors: dict

    @property
    def left_out(self):
        """What is said of it where it does not come along."""
        return f"  left out: {', '.join(self.tensors)} (the head of a fine-tuned run; finetune takes it along for the same task)"


@dataclasses.dataclass(frozen=True)
class Weights:
    """Tensors under the names and in the layout of BertPretrainer's variables, and what belongs to them.

    Attributes:
        config: BertConfig.
        tensors: dict path -> float32 array; shapes(config) has all paths and shapes. A part that the source does not hold
            is left out. A fine-tuned model's output layer is classifier/kernel [H, n] and classifier/bias [n].
        vocabulary: the bytes of vocab.txt, or None.
        task: of TASKS when there is a classifier, else "". labels: the names of its n outputs, where known.
        problem_type: of a sequence_classification one of PROBLEM_TYPES, where known: what its outputs are.
        unused: dict name in the source -> why it is left out: optimizer slots, buffers.
        unexpected: names in the source that nothing here stands for, with their shapes.
        origin: "format path", for messages.
        own_head: OwnHead, where there is one; it is none of the tensors.
        says_casing: whether the source says do_lower_case, which without a vocabulary cannot be judged.
    """

    config: BertConfig
    tensors: dict
    vocabulary: bytes | None = None
    task: str = ""
    labels: tuple = ()
    problem_type: str = ""
    unused: dict = dataclasses.field(default_factory=dict)
    unexpected: dict = dataclasses.field(default_factory=dict)
    origin: str = ""
    own_head: OwnHead | None = None
    says_casing: bool = False

    def parts(self):
        """The parts whose tensors are all there, in the order of PARTS."""
        return tuple(part for part in PARTS if not self.missing([part]))

    def missing(self, parts=PARTS):
        """Paths of some parts that have no tensor."""
        return [path for path in shapes(self.config, parts) if path not in self.tensors]

    def changed(self, tensors, **config):
        """A copy with other tensors and some other values in the configuration."""
        return dataclasses.replace(self, config=self.config.replace(**config), tensors=tensors)


def shapes(config, parts=PARTS):
    """dict path -> shape of every variable of a BertPretrainer (or of some of its parts), in the model's order."""
    hidden, inner = config.hidden_size, config.intermediate_size

    def dense(name, input_size, output_size):
        return {f"{name}/kernel": (input_size, output_size), f"{name}/bias": (output_size,)}

    def layer_norm(name):
        return {f"{name}/gamma": (hidden,), f"{name}/beta": (hidden,)}

    found = {
        "encoder/embeddings/word_embeddings": (config.vocab_size, hidden),
        "encoder/embeddings/position_embeddings": (config.max_position_embeddings, hidden),
        "encoder/embeddings/token_type_embeddings": (config.type_vocab_size, hidden),
        **layer_norm("encoder/embeddings/layer_norm"),
    }
    for index, num_heads in enumerate(config.head_counts):
        layer, width = f"encoder/layer_{index}", num_heads * config.head_size
        found |= {
            **dense(f"{layer}/attention/query_key_value", hidden, 3 * width),
            **dense(f"{layer}/attention/output", width, hidden),
            **layer_norm(f"{layer}/attention_layer_norm"),
            **dense(f"{layer}/intermediate", hidden, inner),
            **dense(f"{layer}/output", inner, hidden),
            **layer_norm(f"{layer}/output_layer_norm"),
        }
    found |= {
        **dense("encoder/pooler", hidden, hidden),
        "masked_lm/output_bias": (config.vocab_size,),
        **dense("masked_lm/transform", hidden, hidden),
        **layer_norm("masked_lm/layer_norm"),
        **dense("next_sentence/projection", hidden, 2),
    }
    if not config.tie_word_embeddings:
        found["masked_lm/output_embeddings"] = (config.vocab_size, hidden)
    return {path: shape for path, shape in found.items() if part_of(path) in parts}


def part_of(path):
    """The part that a path belongs to: one of PARTS, or "classifier"."""
    return "pooler" if path.startswith("encoder/pooler/") else path.split("/", 1)[0]


def split_attention(values):
    """A copy of a dict by path in which every query_key_value stands as query, key and value, as other formats have them.

    Args:
        values: path -> array (kernel [H, 3H], bias [3H]) or shape tuple.

    Raises:
        UserError: heads were pruned, for which the other formats have no place.
    """
    found = {}
    for path, value in values.items():
        if "/query_key_value/" not in path:
            found[path] = value
            continue
        shape = value if isinstance(value, tuple) else value.shape
        if path.endswith("/kernel") and shape[-1] != 3 * shape[0]:
            raise UserError(
                f"{path} is {list(shape)}: heads of this layer were pruned, for which this layout has no place; "
                "write it with --to=workdir"
            )
        if isinstance(value, tuple):
            found |= {path.replace("query_key_value", name): (*value[:-1], value[-1] // 3) for name in _QUERY_KEY_VALUE}
        else:
            found |= {
                path.replace("query_key_value", name): np.ascontiguousarray(third)
                for name, third in zip(_QUERY_KEY_VALUE, np.split(value, 3, axis=-1))
            }
    return found


def join_attention(tensors):
    """The reverse of split_attention over arrays; a query whose key or value is missing or of another shape stays alone."""
    found = dict(tensors)
    for path in tensors:
        if "/attention/query/" in path:
            names = [path.replace("/query/", f"/{name}/") for name in _QUERY_KEY_VALUE]
            # Three that are not alike are left as they are, for checked() to name.
            if len({tensors[name].shape if name in tensors else None for name in names}) == 1:
                joined = np.concatenate([found.pop(name) for name in names], axis=-1)
                found[path.replace("/query/", "/query_key_value/")] = joined
    return found


def checked(weights, allow_missing=(), allow_unexpected=False):
    """The weights without the parts that are missing, and the report of what was loaded.

    Args:
        allow_missing: parts (not the encoder) that may be missing or incomplete. allow_unexpected: whether tensors that
            nothing here stands for are left out rather than refused.

    Returns:
        (Weights, lines of text).

    Raises:
        UserError: a tensor is missing, unexpected or of another shape; every such one is listed: name, expected, found.
    """
    for part in allow_missing:
        if part not in PARTS[1:]:
            raise UserError(f"--allow_missing={part} is none of {', '.join(PARTS[1:])}")
    wanted = shapes(weights.config)
    if "classifier/kernel" in weights.tensors:
        outputs = (weights.tensors["classifier/kernel"].shape or (1,))[-1]
        wanted |= {"classifier/kernel": (weights.config.hidden_size, outputs), "classifier/bias": (outputs,)}
    faults, absent = [], {}
    for path, shape in wanted.items():
        if path not in weights.tensors:
            absent.setdefault(part_of(path), []).append(path)
        elif weights.tensors[path].shape != shape:
            faults.append(f"{path}: expected {list(shape)}, found {list(weights.tensors[path].shape)}")
    for part, paths in absent.items():
        if part not in allow_missing:
            whole = "" if part not in PARTS[1:] else f" (--allow_missing={part} goes on without {part})"
            named = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
            faults.append(f"{named}: missing{whole}")
    unexpected = {
        **weights.unexpected,
        **{path: tensor.shape for path, tensor in weights.tensors.items() if path not in wanted},
    }
    if not allow_unexpected:
        faults += [
            f"{name} {list(shape)}: unexpected (--allow_unexpected leaves it out)" for name, shape in unexpected.items()
        ]
    if (
        weights.vocabulary is not None
        and (pieces := weights.vocabulary.rstrip(b"\n").count(b"\n") + 1) > weights.config.vocab_size
    ):
        faults.append(
            f"vocab.txt: {pieces:,} entries for a table of {weights.config.vocab_size:,} rows; lay the model's own there"
        )
    if faults:
        raise UserError(f"{weights.origin}: does not fit its configuration: " + "; ".join(faults))
    kept = {path: weights.tensors[path] for path in wanted if part_of(path) not in absent}
    parts = [part_of(path) for path in kept]
    counts = {part: parts.count(part) for part in (*PARTS, "classifier") if part in parts}
    lines = [
        f"{weights.origin}: {len(kept)} tensors match ("
        + ", ".join(f"{part} {count}" for part, count in counts.items())
        + ")"
    ]
    for part, paths in absent.items():
        there = sum(part_of(path) == part for path in weights.tensors)
        lines.append(
            f"  missing: {part}, {len(paths)} tensors; this part is not loaded"
            + (f", nor are the other {there} of it" if there else "")
        )
    lines += [f"  left out: {name} ({reason})" for name, reason in weights.unused.items()]
    lines += [f"  left out: {name} {list(shape)} (unexpected)" for name, shape in unexpected.items()]
    if weights.own_head:
        lines.append(weights.own_head.left_out)
    return dataclasses.replace(weights, tensors=kept), lines
