"""What Keras asks of layers and models: a configuration to make them again from, and dropout where training is true."""

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend

PACKAGE = "keras_bert_app"  # the name under which Keras knows the classes and functions of this package
registered = keras.saving.register_keras_serializable(PACKAGE)


class Configured:
    """A mixin: get_config and from_config by the arguments of the constructor.

    Attributes:
        CONFIGURED: names of these arguments. An object has an attribute of the same name for each.
    """

    CONFIGURED: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal object, as JSON can hold them."""
        config = {**super().get_config(), **{name: _plain(getattr(self, name)) for name in self.CONFIGURED}}
        frozen = [number for number, layer in enumerate(_layers_in(self)) if not layer.trainable]
        return {**config, "frozen_layers": frozen} if frozen and self.trainable else config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None):
        """Makes an object from the dict of get_config.

        Args:
            config: dict of get_config.
            custom_objects: dict name -> class or function, of objects that are not registered with Keras.

        Raises:
            UserError: a value of the model's configuration is out of its range.
        """
        arguments = {name: _restored(name, value, custom_objects) for name, value in config.items()}
        is_trainable, frozen = arguments.pop("trainable", True), arguments.pop("frozen_layers", ())
        made = cls(**arguments)
        if not is_trainable:
            made.trainable = False
        layers = _layers_in(made) if frozen else ()
        for number in frozen:
            layers[number].trainable = False
        return made


def _layers_in(layer):
    """The layers in a layer, and in those, in an order that follows from its arguments."""
    return layer._flatten_layers(include_self=False)


def _plain(value):
    if isinstance(value, BertConfig):
        # Not to_dict, whose "gelu" only the layout of a file explains. JSON has lists alone.
        fields = dataclasses.asdict(value)
        return {key: list(each) if isinstance(each, tuple) else each for key, each in fields.items()}
    return keras.saving.serialize_keras_object(value)


def _restored(name, value, custom_objects):
    if name == "config":
        return BertConfig.from_dict(value)
    if isinstance(value, Mapping) and "class_name" in value:
        value = keras.saving.deserialize_keras_object(dict(value), custom_objects)
    # A layer hands its policy on to the layers in it by this name.
    return value.name if isinstance(value, keras.dtype_policies.DTypePolicy) else value


def dropout_counter(seed: int | str) -> keras.random.SeedGenerator:
    """The counter that Keras' `training` draws dropout from: a variable with a seed and the number of the next draw.

    Keras does not count it among the weights, so that checkpoints, exports and .weights.h5 files do not contain it.

    Args:
        seed: of the initial weights.
    """
    return keras.random.SeedGenerator(zlib.crc32(f"{seed}/dropout".encode()), name="dropout_counter")


def seed_of_call(dropout_seed: Any, training: bool | None, counter: keras.random.SeedGenerator | None) -> Any:
    """The dropout seed of one call of a model.

    Args:
        dropout_seed: int [2] that the caller gave, or None.
        training: what Keras says: True in fit, False in evaluate and predict, None outside of both.
        counter: of dropout_counter, or None for a model without dropout of its own.

    Returns:
        dropout_seed where it was given. In training the counter's next seed, another one for each replica. None, for
        inference, everywhere else.
    """
    if dropout_seed is not None or not training or counter is None:
        return dropout_seed
    return backend.seed_of_replica(counter.next())
