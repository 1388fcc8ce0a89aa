"""Which models are served: TensorFlow Serving's models.config, or one model named by flags. Needs no TensorFlow."""

import dataclasses
import os

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from keras_bert_app.errors import UserError

# Where TensorFlow Serving's container has the models; the same file then serves on this machine.
CONTAINER_ROOT = "/models"


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One served model.

    Args:
        name: in the URL. base_path: directory of the versions. latest: how many of the largest versions are served, or
            None for all. specific: the versions that are served, or () to go by `latest`. version_labels: label ->
            version.
    """

    name: str
    base_path: str
    latest: int | None = 1
    specific: tuple = ()
    version_labels: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not self.name or set(self.name) & set("/:%?#") or not self.name.isprintable():
            raise UserError(
                f"model name {self.name!r}: expected printable characters without / : % ? #, since it stands in the URL"
            )

    def chosen(self, versions):
        """Those of the versions there that the policy serves, ascending."""
        if self.specific:
            return [version for version in versions if version in self.specific]
        return sorted(versions)[-self.latest if self.latest else 0 :]


def read(path):
    """The models of a models.config (text form of ModelServerConfig).

    A relative base path counts from the file's own directory, and so does one below /models where there is no such
    directory.

    Raises:
        UserError: no such file, not of that form, a model twice, or an option that only TensorFlow Serving has.
    """
    parsed = read_text_message(path, model_server_config_pb2.ModelServerConfig())
    if not parsed.model_config_list.config:
        raise UserError(
            f"{path}: names no model; expected model_config_list {{ config {{ name: '...' base_path: '...' }} }}"
        )
    configs = {}
    for entry in parsed.model_config_list.config:
        if entry.name in configs:
            raise UserError(f"{path}: model {entry.name!r} is there twice; give each a name of its own")
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
    return base_path if "://" in base_path else os.path.join(directory, base_path)


def read_text_message(path, message):
    """Fills a protocol buffer from a file in text form.

    Raises:
        UserError: no such file, or not of that form; the line is named.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return text_format.Parse(file.read(), message)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected a {message.DESCRIPTOR.name} in text form") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; expected a {message.DESCRIPTOR.name} in text form") from None
