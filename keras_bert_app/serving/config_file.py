"""The models.config of a running server. A change of the file takes effect without a restart."""

import asyncio
import os
from collections.abc import Callable

from keras_bert_app.errors import UserError
from keras_bert_app.serving import model_configs


class ConfigFile:
    """A models.config that may change.

    Args:
        path: str. The file.
        configs: list of ModelConfig. The content of the file when the server started.
        models: models.Models. The served models, which follow the file.
        log: function that takes one line of text.
    """

    def __init__(self, path: str, configs: list, models, log: Callable[[str], None]):
        self._path, self._configs, self._models, self._log = path, configs, models, log
        self._trouble = ""

    async def refresh(self) -> None:
        """Reads the file once, and applies its changes.

        A file that cannot be read changes nothing. The log gets each error once.
        """
        try:
            configs, trouble = await asyncio.to_thread(_read, self._path), ""
        except (UserError, OSError) as error:
            configs, trouble = self._configs, f"{error}; the models stay as they are"
        if trouble and trouble != self._trouble:
            self._log(trouble)
        self._trouble = trouble
        if configs != self._configs:
            self._configs = configs
            await self._models.configure(configs)


def _read(path):
    """Reads a plain file. A pipe would block the thread for ever, and the server could not stop."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path}: is not a regular file; put a models.config there")
    return model_configs.read(path)
