"""The served models. New versions load while old versions answer.

The server unloads an old version when its requests are done.
"""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.serving import saved_model_files
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.request_errors import RequestError, one_line, short
from keras_bert_app.serving.servable import Servable
from keras_bert_app.serving.versions import AVAILABLE, END, LOADING, UNLOADING, Version
from pipelines import storage


class Model:
    """A served model and its versions.

    Args:
        config: ModelConfig. Its name, its base path and its policy.

    Attributes:
        versions: dict from number to Version. It has every version that the server tried to load and that still exists.
        trouble: str. The reason why the last look into the base path failed, or "".
    """

    def __init__(self, config: ModelConfig):
        self.config, self.versions, self.trouble = config, {}, ""

    def default(self) -> Version | None:
        """Returns the largest version that takes requests, or None."""
        return max(self.available(), key=lambda version: version.number, default=None)

    def available(self) -> list[Version]:
        """Returns all versions that take requests."""
        return [version for version in self.versions.values() if version.state == AVAILABLE]

    def find(self, number: int | None = None, label: str | None = None) -> Version:
        """Finds the version that a request names.

        Args:
            number: int. The version's number, or None for the default version.
            label: str. A label of the configuration; it overrides the number.

        Returns:
            Version that takes requests.

        Raises:
            RequestError: the label is unknown, or the version takes no requests.
        """
        if label is not None:
            if label not in self.config.version_labels:
                known = ", ".join(sorted(self.config.version_labels)) or "none"
                raise RequestError(400, f"model {self.config.name!r} has no label {short(label)}; labels: {known}")
            number = self.config.version_labels[label]
        version = self.default() if number is None else self.versions.get(number)
        if version is None or version.state != AVAILABLE:
            available = ", ".join(str(version.number) for version in self.available()) or "none"
            wanted = "version" if number is None else f"version {number}"
            raise RequestError(
                404, f"model {self.config.name!r} has no {wanted} loaded; available versions: {available}"
            )
        return version


class Models:
    """All served models, kept up to date with their directories and policies.

    Args:
        configs: list of ModelConfig. One for each model.
        metrics: Metrics. The counters of the server.
        allow_unverified: bool. Whether to serve versions without a manifest.json.
        log: function that takes one line of text.

    Attributes:
        by_name: dict from name to Model.
    """

    def __init__(
        self,
        configs: list[ModelConfig],
        metrics,
        allow_unverified: bool = False,
        log: Callable[[str], None] = print,
    ):
        self.by_name = {config.name: Model(config) for config in configs}
        self._metrics, self._allow_unverified, self._log = metrics, allow_unverified, log
        # Models load on a single thread, so that the other processors stay free for requests.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "load")
        self._unloading = set()
        self._is_looking = asyncio.Lock()

    def find(self, name: str) -> Model:
        """Finds a served model.

        Args:
            name: str. The model's name in the URL.

        Returns:
            Model.

        Raises:
            RequestError: the server does not serve this model.
        """
        if name not in self.by_name:
            raise RequestError(404, f"no model {short(name)} is served here; served: {', '.join(self.by_name)}")
        return self.by_name[name]

    async def load(self) -> None:
        """Loads the versions that the policies choose.

        Raises:
            UserError: no version of some model can be loaded.
        """
        await self.refresh()
        for model in self.by_name.values():
            if model.default() is None:
                errors = [version.error for version in model.versions.values()]
                raise UserError(
                    f"model {model.config.name!r}: {errors[-1]}"
                    if errors
                    else f"{model.config.base_path}: no version of model {model.config.name!r} there; expected "
                    "VERSION/saved_model.pb below it, with a whole number as VERSION; give the --export_dir of `export`"
                )

    async def configure(self, configs: list[ModelConfig]) -> None:
        """Serves other models from now on. Models with an unchanged base path keep their versions.

        Args:
            configs: list of ModelConfig. One for each model.
        """
        async with self._is_looking:
            for name in [name for name in self.by_name if name not in {config.name for config in configs}]:
                self._unload_all(self.by_name.pop(name))
                self._log(f"model {name!r}: is served no longer")
            for config in configs:
                known = self.by_name.get(config.name)
                if known is not None and known.config.base_path == config.base_path:
                    known.config = config
                    continue
                model = Model(config)
                await self._look(model)
                if known is not None:
                    self._unload_all(known)
                self.by_name[config.name] = model
                for version in model.available():
                    self._metrics.loaded.labels(config.name, version.number).set(1)
                if model.default() is None:
                    self._log(f"model {config.name!r}: no version in {config.base_path} can be served yet")

    def _unload_all(self, model):
        for version in model.available():
            self._unload(model, version)

    def end_runs(self) -> None:
        """Makes all runs fail at once. The server calls this when it stops and cannot wait for them."""
        for model in self.by_name.values():
            for version in model.versions.values():
                if version.servable is not None:
                    version.servable.close()

    async def refresh(self) -> None:
        """Checks the directory of every model once for new and removed versions.

        The log names a version that fails. The other versions stay as they are.
        """
        async with self._is_looking:
            for model in list(self.by_name.values()):
                await self._look(model)

    async def _look(self, model):
        trouble = ""
        try:
            await self._refresh_model(model)
        except Exception as error:  # any error of a file system: the server must look again later
            trouble = f"{model.config.base_path}: cannot be read: {one_line(error)}"
        if trouble and trouble != model.trouble:
            self._log(trouble)
        model.trouble = trouble

    async def _refresh_model(self, model):
        directories = await self._in_thread(saved_model_files.version_directories, model.config.base_path)
        chosen = model.config.chosen(directories)
        for number in chosen:
            await self._load_if_due(model, number, directories[number])
        # Unload a version only if a chosen version can answer instead.
        if any(model.versions[number].state == AVAILABLE for number in chosen):
            for version in model.available():
                if version.number not in chosen:
                    self._unload(model, version)
        for number, version in list(model.versions.items()):
            if version.state == END and number not in directories:
                del model.versions[number]

    async def _load_if_due(self, model, number, directory):
        known = model.versions.get(number)
        if known is not None and known.state in (LOADING, AVAILABLE):
            return
        try:
            fingerprint = await self._in_thread(_fingerprint, directory)
        except Exception as error:  # any error of a file system: this version alone fails
            fingerprint = one_line(error)
        if known is not None and known.error and known.fingerprint == fingerprint:
            return  # loading failed, and the files are the same
        version = model.versions[number] = Version(number, directory, fingerprint)
        name = model.config.name
        try:
            version.became_available(await self._in_thread(Servable, directory, self._allow_unverified, self._log))
        except Exception as error:
            # A damaged SavedModel can raise any error in TensorFlow. The other models must go on.
            version.failed(f"version {number} cannot be served: {one_line(error)}")
            self._metrics.failed_loads.labels(name).inc()
            self._log(f"model {name!r}: {version.error}")
            return
        self._metrics.loaded.labels(name, number).set(1)
        self._log(f"model {name!r}: version {number} takes requests")

    def _unload(self, model, version):
        version.state = UNLOADING
        self._metrics.loaded.remove(model.config.name, str(version.number))
        task = asyncio.ensure_future(self._close(model, version))
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)

    async def _close(self, model, version):
        await version.until_idle()
        await self._in_thread(version.servable.close)
        version.ended()
        self._log(f"model {model.config.name!r}: version {version.number} unloaded")

    async def close(self) -> None:
        """Unloads everything. No request may be under way."""
        for model in self.by_name.values():
            self._unload_all(model)
        await asyncio.gather(*self._unloading)
        self._thread.shutdown()

    async def _in_thread(self, function, *arguments):
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def _fingerprint(directory):
    """Returns the names, sizes and times of a version's files. They change when someone repairs the version."""

    # TensorFlow rounds the times of local files to seconds, os.stat does not.
    def state_of(path):
        if storage.is_remote(path):
            status = tf.io.gfile.stat(path)
            return status.length, status.mtime_nsec
        try:
            status = os.stat(path)
        except OSError as error:  # a link that leads nowhere, or a file that was removed a moment ago
            return error.errno, 0
        return status.st_size, status.st_mtime_ns

    paths = [os.path.join(directory, name) for name in saved_model_files.files_below(directory)]
    return [(path, *state_of(path)) for path in paths]
