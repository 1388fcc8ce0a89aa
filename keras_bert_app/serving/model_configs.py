"""The models to serve: TensorFlow Serving's models.config, or one model.

This module does not load TensorFlow.
"""

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_whole
from pipelines import storage

# The directory of the models in TensorFlow Serving's container. A models.config for the container also works here.
CONTAINER_ROOT = "/models"
_MAX_BYTES = 1 << 22  # some 20,000 models


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One served model.

    Args:
        name: str. The name in the URL.
        base_path: str. The directory of the versions.
        latest: int. How many of the largest versions to serve, or None for all.
        specific: tuple of int. The versions to serve, or () to follow `latest`.
        version_labels: dict from label to version.
    """

    name: str
    base_path: str
    latest: int | None = 1
    specific: tuple = ()
    version_labels: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not self.name or set(self.name) & set("/:%?#") or not self.name.isprintable():
            raise UserError(
                f"model name {self.name!r}: expected printable characters without / : % ? #, because the name is "
                "part of the URL"
            )

    def chosen(self, versions: Iterable[int]) -> list[int]:
        """Selects the versions that the policy serves.

        Args:
            versions: iterable of int. The versions that exist, ascending.

        Returns:
            list of int, ascending.
        """
        if self.specific:
            return [version for version in versions if version in self.specific]
        return sorted(versions)[-self.latest if self.latest else 0 :]


def read(path: str) -> list[ModelConfig]:
    """Reads the models from a models.config (text form of ModelServerConfig).

    A relative base path starts at the directory of the file. So does a path below /models on machines without /models.

    Args:
        path: str. The file.

    Returns:
        list of ModelConfig.

    Raises:
        UserError: the file is missing or not in this form, names a model twice, or has an option that only TensorFlow
            Serving has.
    """
    parsed = read_text_message(path, model_server_config_pb2.ModelServerConfig())
    if not parsed.model_config_list.config:
        raise UserError(
            f"{path}: names no model; expected model_config_list {{ config {{ name: '...' base_path: '...' }} }}"
        )
    configs = {}
    for entry in parsed.model_config_list.config:
        if entry.name in configs:
            raise UserError(f"{path}: two models have the name {entry.name!r}; give each model its own name")
        if entry.model_platform not in ("", "tensorflow"):
            raise UserError(
                f"{path}: model {entry.name!r} has model_platform {entry.model_platform!r}; expected 'tensorflow'"
            )
        if not entry.base_path:
            raise UserError(f"{path}: model {entry.name!r} has no base_path; give the directory of its versions")
        policy = entry.model_version_policy
        kind = policy.WhichOneof("policy_choice")
        if kind == "specific" and not policy.specific.versions:
            raise UserError(f"{path}: model {entry.name!r} has a specific policy without versions; give versions: N")
        configs[entry.name] = ModelConfig(
            entry.name,
            _resolve(entry.base_path, os.path.dirname(path)),
            latest=None if kind == "all" else policy.latest.num_versions or 1,
            specific=tuple(policy.specific.versions),
            version_labels=dict(entry.version_labels),
        )
    return list(configs.values())


def _resolve(base_path, directory):
    if base_path.startswith(CONTAINER_ROOT + "/") and not os.path.isdir(CONTAINER_ROOT):
        base_path = base_path[len(CONTAINER_ROOT) + 1 :]
    return base_path if storage.is_remote(base_path) else os.path.join(directory, base_path)


def read_text_message(path: str, message: Any) -> Any:
    """Fills a protocol buffer from a file in text form.

    Args:
        path: str. The file.
        message: protocol buffer. An empty one, which the function fills.

    Returns:
        The same protocol buffer.

    Raises:
        UserError: the file is missing, too large or not in text form; the error names the line.
    """
    try:
        return text_format.Parse(read_whole(path, _MAX_BYTES).decode("utf-8"), message)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected a {message.DESCRIPTOR.name} in text form") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; expected a {message.DESCRIPTOR.name} in text form") from None
