"""Makes the model of a task from the description of its head."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.task_head import Head
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.modeling.text_to_text_model import Decoder, TextToTextModel
from keras_bert_app.modeling.vector_model import VectorHead, VectorModel

TaskHead = Head | Decoder | VectorHead


def head_of(values: Mapping[str, Any]) -> TaskHead:
    """Makes the description of a head from its fields, as config.json has them.

    Args:
        values: dict. The fields of a Head, of a Decoder or of a VectorHead.

    Returns:
        Head, Decoder or VectorHead.
    """
    if "vector_pooling" in values:
        return VectorHead(**values)
    return Decoder(**values) if "decoder" in values else Head(**values)


def is_same_head(values: Mapping[str, Any], head: TaskHead) -> bool:
    """Whether weights with one head fit another head. The dropout rate, the scale and the offset may differ.

    Args:
        values: dict. The fields of the first head, as config.json has them.
        head: Head, Decoder or VectorHead. The second head.
    """
    free = ("dropout", "scale", "offset")
    # The config.json of an earlier version lacks the fields that are newer.
    known = {field.name: field.default for field in dataclasses.fields(head) if field.default != dataclasses.MISSING}
    first, second = (
        {name: value for name, value in json.loads(json.dumps(each)).items() if name not in free}
        for each in ({**known, **values}, dataclasses.asdict(head))
    )
    return first == second


def make_task_model(
    config: BertConfig,
    head: TaskHead,
    seed: int = 0,
    dtype: str = "float32",
    encoder_has_dropout: bool = True,
    passes: int = 1,
    has_language_model: bool = False,
    has_decoder: bool = False,
) -> BertTaskModel | TextToTextModel | VectorModel:
    """Makes the model of a task with random weights.

    Args:
        config: BertConfig. The configuration of the encoder.
        head: Head, Decoder or VectorHead.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy.
        encoder_has_dropout: bool. False for an encoder that is not trained.
        passes: int. How many times a training batch passes through a BertTaskModel.
        has_language_model: bool. Whether a BertTaskModel also predicts the next pieces.
        has_decoder: bool. Whether a VectorModel has a decoder that rebuilds texts.
    """
    if isinstance(head, Decoder):
        return TextToTextModel(config, head, seed, dtype, encoder_has_dropout)
    if isinstance(head, VectorHead):
        return VectorModel(config, head, seed, dtype, encoder_has_dropout, has_decoder)
    return BertTaskModel(config, head, seed, dtype, encoder_has_dropout, passes, has_language_model)
