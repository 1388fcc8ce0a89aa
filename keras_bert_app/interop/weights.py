"""Defines Weights, a BERT's tensors and settings outside of any model.

Every reader of a layout returns Weights, and every writer accepts them. This module needs numpy only.
"""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.weight_shapes import part_of, shapes
from keras_bert_app.errors import UserError

# Tasks of fine-tuned models, whose output layer is the part "classifier".
TASKS = ("sequence_classification", "token_classification", "question_answering", "multiple_choice")
# In these tasks the output layer reads the pooled output. In the others it reads the output of every token.
POOLED_TASKS = ("sequence_classification", "multiple_choice")
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")  # transformers' names
_MOST_NAMES = 12  # a message names so many tensors at most
_QUERY_KEY_VALUE = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class OwnHead:
    """A fine-tuned model's head that no other layout can store, such as a BiLSTM or a mean of the tokens.

    Attributes:
        description: dict. The fields of modeling.task_head.Head.
        labels: tuple of str. The names of the outputs.
        tensors: dict path -> array. The weights of the head.
    """

    description: dict
    labels: tuple
    tensors: dict

    @property
    def left_out(self) -> str:
        """The line for the user if the head is not loaded or written."""
        names = list(self.tensors)
        if len(names) > _MOST_NAMES:
            names = [f"{len(names)} tensors of {' and '.join(sorted({part_of(path) for path in names}))}"]
        return f"  left out: {', '.join(names)} (the head of a fine-tuned run; `finetune` loads it for the same task)"


@dataclasses.dataclass(frozen=True)
class Weights:
    """Tensors with the paths and shapes of BertPretrainer's variables, and their settings.

    Attributes:
        config: BertConfig. Configuration of the model.
        tensors: dict path -> float32 array. `weight_shapes.shapes` lists all paths and shapes. Parts may be missing.
            The output layer of a fine-tuned model is classifier/kernel [H, n] and classifier/bias [n].
        vocabulary: bytes or None. Content of vocab.txt.
        task: str. One of TASKS if there is a classifier, else "".
        labels: tuple of str. Names of the n outputs of the classifier. Empty if unknown.
        problem_type: str. One of PROBLEM_TYPES for a sequence_classification. Empty if unknown.
        unused: dict name -> str. Names in the source that are not loaded, such as optimizer slots, and why.
        unexpected: dict name -> shape. Tensors in the source that match nothing in this model.
        origin: str. "format path", for messages.
        own_head: OwnHead or None. A head whose weights are not in `tensors`.
        says_casing: bool. Whether the files of the source state do_lower_case. Otherwise its value is a guess.
        absent: dict part -> str. Parts that a model of this class never has, and why.
        untrained: tuple of str. Parts for which the pre-training had no objective. They may be missing.
        remarks: tuple of str. Lines about settings that the files of the source leave open and the reader decided.
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
    absent: dict = dataclasses.field(default_factory=dict)
    untrained: tuple = ()
    remarks: tuple = ()

    def parts(self) -> tuple[str, ...]:
        """Lists the parts that have all their tensors.

        Returns:
            tuple of str, in the order of PARTS.
        """
        return tuple(part for part in self.config.parts if not self.missing([part]))

    def missing(self, parts: Collection[str] = PARTS) -> list[str]:
        """Lists the paths in some parts for which there is no tensor.

        Args:
            parts: collection of str. Some of PARTS.

        Returns:
            list of str.
        """
        return [path for path in shapes(self.config, parts) if path not in self.tensors]

    def changed(self, tensors: dict, **config) -> "Weights":
        """Makes a copy with other tensors and changed values of the configuration.

        Args:
            tensors: dict path -> float32 array. All tensors of the copy.
            **config: Fields of BertConfig with their new values.

        Returns:
            Weights. Everything else is the same.
        """
        return dataclasses.replace(self, config=self.config.replace(**config), tensors=tensors)


def split_attention(values: Mapping) -> dict:
    """Splits every query_key_value of a dict by path into query, key and value, as other layouts do.

    Args:
        values: dict path -> array or shape tuple. A kernel is [H, 3H], a bias is [3H].

    Returns:
        dict path -> array or shape tuple. A kernel is [H, H], a bias is [H]. Other entries are unchanged.

    Raises:
        UserError: Heads of a layer were pruned. The other layouts cannot store such a layer.
    """
    split = {}
    for path, value in values.items():
        if "/query_key_value/" not in path:
            split[path] = value
            continue
        shape = value if isinstance(value, tuple) else value.shape
        if path.endswith("/kernel") and shape[-1] != 3 * shape[0]:
            raise UserError(
                f"{path} is {list(shape)}: heads of this layer were pruned, which this layout cannot store; "
                "write the model with --to=workdir"
            )
        if isinstance(value, tuple):
            split |= {path.replace("query_key_value", name): (*value[:-1], value[-1] // 3) for name in _QUERY_KEY_VALUE}
        else:
            split |= {
                path.replace("query_key_value", name): np.ascontiguousarray(third)
                for name, third in zip(_QUERY_KEY_VALUE, np.split(value, 3, axis=-1), strict=True)
            }
    return split


def join_attention(tensors: Mapping) -> dict:
    """Joins query, key and value of a dict by path into query_key_value: the reverse of split_attention.

    Args:
        tensors: dict path -> array. A kernel is [H, H], a bias is [H].

    Returns:
        dict path -> array. A kernel is [H, 3H], a bias is [3H]. If a key or value is missing or has another shape than
        its query, all of them stay separate.
    """
    joined = dict(tensors)
    for path in tensors:
        if "/attention/query/" in path:
            names = [path.replace("/query/", f"/{name}/") for name in _QUERY_KEY_VALUE]
            # If the three shapes differ, the tensors stay separate, and checked() names them.
            if len({tensors[name].shape if name in tensors else None for name in names}) == 1:
                joined[path.replace("/query/", "/query_key_value/")] = np.concatenate(
                    [joined.pop(name) for name in names], axis=-1
                )
    return joined


def checked(
    weights: Weights,
    allow_missing: Collection[str] = (),
    allow_unexpected: bool = False,
    allow_absent: bool = False,
) -> tuple[Weights, list[str]]:
    """Checks weights against their configuration, and reports which tensors are loaded.

    Args:
        weights: Weights. As a reader returns them.
        allow_missing: collection of str. Parts that may be missing or incomplete. The encoder may not be one of them.
        allow_unexpected: bool. If True, unexpected tensors are left out. If False, they are an error.
        allow_absent: bool. Whether the parts of Weights.absent may be missing, too.

    Returns:
        Tuple (Weights, lines of the report). Unexpected tensors are removed, and so is every part that lacks a tensor.

    Raises:
        UserError: A tensor is missing, unexpected or has another shape. The message lists every such tensor with its
            name and with the expected and the found shape.
    """
    for part in allow_missing:
        if part not in PARTS[1:]:
            raise UserError(f"--allow_missing={part} is none of {', '.join(PARTS[1:])}")
    expected = _expected_shapes(weights)
    missing = {}
    for path in expected:
        if path not in weights.tensors:
            missing.setdefault(part_of(path), []).append(path)
    may_be_absent = (*weights.untrained, *(weights.absent if allow_absent else ()))
    allow_missing = (*allow_missing, *_without_tensors(weights, may_be_absent))
    unexpected = {
        **weights.unexpected,
        **{path: tensor.shape for path, tensor in weights.tensors.items() if path not in expected},
    }
    faults = [*_shape_faults(weights, expected), *_missing_faults(missing, allow_missing)]
    if not allow_unexpected:
        faults += [
            f"{name} {list(shape)}: unexpected (--allow_unexpected leaves it out)" for name, shape in unexpected.items()
        ]
    faults += _vocabulary_faults(weights)
    if faults:
        raise UserError(f"{weights.origin}: does not fit its configuration: " + "; ".join(faults))
    loaded = {path: weights.tensors[path] for path in expected if part_of(path) not in missing}
    return dataclasses.replace(weights, tensors=loaded), _report(weights, loaded, missing, unexpected)


def _without_tensors(weights, parts):
    """Those of the parts that have no tensor. An incomplete part is a fault."""
    present = {part_of(path) for path in weights.tensors}
    return [part for part in parts if part not in present]


def check_finite(tensors: Mapping, origin: str) -> None:
    """Refuses weights that contain NaN or infinite numbers.

    Args:
        tensors: dict path -> float32 array.
        origin: str. The source of the weights, for the message.

    Raises:
        UserError: A number is NaN or infinite. The message names the first tensor.
    """
    if names := _not_finite(tensors):
        raise UserError(
            f"{origin}: {_first(names)} numbers that are not finite (NaN or infinite); take an earlier checkpoint, or "
            "train again with a lower learning rate"
        )


def _not_finite(tensors):
    return [path for path, tensor in tensors.items() if not np.isfinite(tensor).all()]


def _first(names):
    return f"{names[0]} and {len(names) - 1} more tensors hold" if names[1:] else f"{names[0]} holds"


def _expected_shapes(weights):
    expected = shapes(weights.config)
    if "classifier/kernel" in weights.tensors:
        num_outputs = (weights.tensors["classifier/kernel"].shape or (1,))[-1]
        expected |= {"classifier/kernel": (weights.config.hidden_size, num_outputs), "classifier/bias": (num_outputs,)}
    return expected


def _shape_faults(weights, expected):
    return [
        f"{path}: expected {list(shape)}, found {list(weights.tensors[path].shape)}"
        for path, shape in expected.items()
        if path in weights.tensors and weights.tensors[path].shape != shape
    ]


def _missing_faults(missing, allow_missing):
    faults = []
    for part, paths in missing.items():
        if part not in allow_missing:
            hint = "" if part not in PARTS[1:] else f" (--allow_missing={part} continues without {part})"
            names = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
            faults.append(f"{names}: missing{hint}")
    return faults


def _vocabulary_faults(weights):
    if weights.vocabulary is None:
        return []
    num_pieces = weights.vocabulary.rstrip(b"\n").count(b"\n") + 1
    if num_pieces <= weights.config.vocab_size:
        return []
    return [
        f"vocab.txt: {num_pieces:,} entries for a table of {weights.config.vocab_size:,} rows; "
        "put the model's own file there"
    ]


def _report(weights, loaded, missing, unexpected):
    """Lists for the user which tensors are loaded, missing and left out."""
    parts = [part_of(path) for path in loaded]
    counts = {part: parts.count(part) for part in (*PARTS, "classifier") if part in parts}
    lines = [
        f"{weights.origin}: {len(loaded)} tensors match ("
        + ", ".join(f"{part} {count}" for part, count in counts.items())
        + ")"
    ]
    for part, paths in missing.items():
        if part in _without_tensors(weights, weights.absent):
            lines.append(f"  has no {part}: {weights.absent[part]}")
            continue
        num_present = sum(part_of(path) == part for path in weights.tensors)
        lines.append(
            f"  missing: {part}, {len(paths)} tensors; this part is not loaded"
            + (f", nor are its other {num_present} tensors" if num_present else "")
        )
    lines += [f"  {remark}" for remark in weights.remarks]
    lines += [f"  left out: {name} ({reason})" for name, reason in weights.unused.items()]
    lines += [f"  left out: {name} {list(shape)} (unexpected)" for name, shape in unexpected.items()]
    if weights.own_head:
        lines.append(weights.own_head.left_out)
    if names := _not_finite(loaded):
        lines.append(f"  WARNING: {_first(names)} numbers that are not finite (NaN or infinite)")
    return lines
