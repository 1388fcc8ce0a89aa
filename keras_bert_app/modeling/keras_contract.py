"""Functions with which Keras saves and restores layers and models, and switches dropout on and off."""

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling import backend

PACKAGE = "keras_bert_app"  # Keras registers the classes and functions of this package under this name.
registered = keras.saving.register_keras_serializable(PACKAGE)


@dataclasses.dataclass(frozen=True)
class Uncast:
    """Tensors that Keras hands to a layer as they are. It casts other float tensors to the layer's compute type.

    Attributes:
        values: the tensors, in any structure.
    """

    values: Any

    @staticmethod
    def values_of(argument: Any) -> Any:
        """The tensors of an argument that may be an Uncast, or anything else.

        Args:
            argument: Uncast, or what stands for itself.
        """
        return argument.values if isinstance(argument, Uncast) else argument


class Configured:
    """A mixin with get_config and from_config for classes that keep the arguments of their constructor.

    Attributes:
        CONFIGURED: tuple of str. The names of the arguments. An object has an attribute of the same name for each.
    """

    CONFIGURED: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal object.

        Returns:
            dict of values that JSON can hold.
        """
        config = {**super().get_config(), **{name: _plain(getattr(self, name)) for name in self.CONFIGURED}}
        frozen = [number for number, layer in enumerate(_layers_in(self)) if not layer.trainable]
        return {**config, "frozen_layers": frozen} if frozen and self.trainable else config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None):
        """Makes an object from the dict of get_config.

        Args:
            config: dict. The result of get_config.
            custom_objects: dict name -> class or function. Objects that are not registered with Keras.

        Returns:
            an object of this class.

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


class Described:
    """A mixin with get_config and from_config for dataclasses of plain values."""

    def get_config(self) -> dict[str, Any]:
        """Returns the fields, which make an equal object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]):
        """Makes an object from the dict of get_config.

        Args:
            config: dict. The result of get_config.

        Returns:
            an object of this class.
        """
        return cls(**config)


def _layers_in(layer):
    """Lists all layers inside a layer, at every depth. Equal arguments give the same order."""
    return layer._flatten_layers(include_self=False)


def _plain(value):
    if isinstance(value, BertConfig):
        # to_dict does not fit: it writes "gelu", whose meaning depends on the layout of a file. JSON has no tuples.
        fields = {**dataclasses.asdict(value), "channels": list(map(str, value.channels))}
        return {key: list(each) if isinstance(each, tuple) else each for key, each in fields.items()}
    return keras.saving.serialize_keras_object(value)


def _restored(name, value, custom_objects):
    if name == "config":
        return BertConfig.from_dict(value)
    if isinstance(value, Mapping) and "class_name" in value:
        value = keras.saving.deserialize_keras_object(dict(value), custom_objects)
    # A layer passes the name of its policy to the layers inside it.
    return value.name if isinstance(value, keras.dtype_policies.DTypePolicy) else value


def dropout_counter(seed: int | str) -> keras.random.SeedGenerator:
    """Makes the counter that gives dropout seeds if Keras passes training=True.

    The counter is a variable with a seed and the number of the next draw. Keras does not count it as a weight, so
    checkpoints, exports and .weights.h5 files do not contain it.

    Args:
        seed: int or str. The seed of the initial weights.

    Returns:
        keras.random.SeedGenerator.
    """
    return keras.random.SeedGenerator(zlib.crc32(f"{seed}/dropout".encode()), name="dropout_counter")


def seed_of_call(dropout_seed: Any, training: bool | None, counter: keras.random.SeedGenerator | None) -> Any:
    """Chooses the dropout seed of one call of a model.

    Args:
        dropout_seed: int [2]. The seed that the caller passed, or None.
        training: bool or None. Keras passes True in fit and False in evaluate and predict. Elsewhere it is None.
        counter: result of dropout_counter, or None for a model without its own dropout.

    Returns:
        dropout_seed if the caller passed one. In training the next seed of the counter, a different one for each
        replica. Otherwise None, for inference.
    """
    if dropout_seed is not None or not training or counter is None:
        return dropout_seed
    return backend.seed_of_replica(counter.next())
