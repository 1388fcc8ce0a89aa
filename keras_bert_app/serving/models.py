"""The served models: new versions are loaded while old ones answer, and old ones leave when their requests are done."""

import asyncio
import concurrent.futures
import os

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.serving import saved_model_files
from keras_bert_app.serving.request_errors import RequestError, one_line, short
from keras_bert_app.serving.servable import Servable
from keras_bert_app.serving.versions import AVAILABLE, END, LOADING, UNLOADING, Version


class Model:
    """A served model.

    Args:
        config: ModelConfig.

    Attributes:
        versions: dict number -> Version of all that were ever tried and are still there. trouble: why its folder could
            not be read the last time, or "".
    """

    def __init__(self, config):
        self.config, self.versions, self.trouble = config, {}, ""

    def default(self):
        """The largest version that takes requests, or None."""
        return max(self.available(), key=lambda version: version.number, default=None)

    def available(self):
        return [version for version in self.versions.values() if version.state == AVAILABLE]

    def find(self, number=None, label=None):
        """The version that a request names.

        Raises:
            RequestError: no such label, or that version takes no requests.
        """
        if label is not None:
            if label not in self.config.version_labels:
                known = ", ".join(sorted(self.config.version_labels)) or "none"
                raise RequestError(400, f"model {self.config.name!r} has no label {short(label)}; labels: {known}")
            number = self.config.version_labels[label]
        version = self.default() if number is None else self.versions.get(number)
        if version is None or version.state != AVAILABLE:
            there = ", ".join(str(version.number) for version in self.available()) or "none"
            wanted = "version" if number is None else f"version {number}"
            raise RequestError(404, f"model {self.config.name!r} has no {wanted} loaded; available versions: {there}")
        return version


class Models:
    """All served models, kept as their folders and policies say.

    Args:
        configs: list of ModelConfig. metrics: Metrics. allow_unverified: see Servable. log: called with a line.
    """

    def __init__(self, configs, metrics, allow_unverified=False, log=print):
        self.by_name = {config.name: Model(config) for config in configs}
        self._metrics, self._allow_unverified, self._log = metrics, allow_unverified, log
        # One thread: a model that loads must leave the processor to those that answer.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "load")
        self._unloading = set()

    def find(self, name):
        """Raises RequestError for a model that is not served."""
        if name not in self.by_name:
            raise RequestError(404, f"no model {short(name)} is served here; served: {', '.join(self.by_name)}")
        return self.by_name[name]

    async def load(self):
        """Loads what the policies choose.

        Raises:
            UserError: a model without a version that can be loaded.
        """
        await self.refresh()
        for model in self.by_name.values():
            if model.default() is None:
                errors = [version.error for version in model.versions.values()]
                raise UserError(
                    f"model {model.config.name!r}: {errors[-1]}"
                    if errors
                    else f"{model.config.base_path}: no version of model {model.config.name!r} there; expected "
                    "1/saved_model.pb below it, or another whole number: the --export_dir of `export`"
                )

    async def refresh(self):
        """Looks into every model's folder once; a version that fails is logged and leaves the others as they are."""
        for model in self.by_name.values():
            trouble = ""
            try:
                await self._refresh_model(model)
            except Exception as error:  # whatever the file system may raise: the next look must come
                trouble = f"{model.config.base_path}: cannot be read: {one_line(error)}"
            if trouble and trouble != model.trouble:
                self._log(trouble)
            model.trouble = trouble

    async def _refresh_model(self, model):
        found = await self._in_thread(saved_model_files.version_directories, model.config.base_path)
        chosen = model.config.chosen(found)
        for number in chosen:
            await self._load_if_due(model, number, found[number])
        # What is loaded goes only when something chosen stands in for it.
        if any(model.versions[number].state == AVAILABLE for number in chosen):
            for version in model.available():
                if version.number not in chosen:
                    self._unload(model, version)
        for number, version in list(model.versions.items()):
            if version.state == END and number not in found:
                del model.versions[number]

    async def _load_if_due(self, model, number, directory):
        known = model.versions.get(number)
        if known is not None and known.state in (LOADING, AVAILABLE):
            return
        fingerprint = await self._in_thread(_fingerprint, directory)
        if known is not None and known.error and known.fingerprint == fingerprint:
            return  # it failed, and nothing has changed since
        version = model.versions[number] = Version(number, directory, fingerprint)
        name = model.config.name
        try:
            version.became_available(await self._in_thread(Servable, directory, self._allow_unverified, self._log))
        except Exception as error:
            # Whatever a damaged SavedModel makes TensorFlow raise: the others must go on.
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

    async def close(self):
        """Frees all; no request may be under way."""
        for model in self.by_name.values():
            for version in model.available():
                self._unload(model, version)
        await asyncio.gather(*self._unloading)
        self._thread.shutdown()

    async def _in_thread(self, function, *arguments):
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def _fingerprint(directory):
    """What changes when someone mends or finishes writing a version: names, lengths and times of its files."""

    # TensorFlow rounds the times of local files to seconds.
    def time_of(path):
        return tf.io.gfile.stat(path).mtime_nsec if "://" in path else os.stat(path).st_mtime_ns

    paths = [os.path.join(directory, name) for name in saved_model_files.files_below(directory)]
    return [(path, tf.io.gfile.stat(path).length, time_of(path)) for path in paths]
