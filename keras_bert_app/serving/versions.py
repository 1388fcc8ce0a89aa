"""One version of a model and its state, in the terms of TensorFlow Serving."""

import asyncio

# The states of tensorflow.serving.ModelVersionStatus that this server uses.
LOADING, AVAILABLE, UNLOADING, END = "LOADING", "AVAILABLE", "UNLOADING", "END"


class Version:
    """A version that is loaded, was loaded, or failed to load. Only the event loop calls its methods.

    Args:
        number: int. The version number.
        directory: str. The directory of its files.
        fingerprint: names, sizes and times of its files before loading; see models.Models.

    Attributes:
        servable: Servable while the version is AVAILABLE or UNLOADING, else None.
        state: str. LOADING, AVAILABLE, UNLOADING or END.
        error: str. The reason why loading failed, or "".
    """

    def __init__(self, number: int, directory: str, fingerprint):
        self.number, self.directory, self.fingerprint = number, directory, fingerprint
        self.servable, self.state, self.error = None, LOADING, ""
        self._num_users = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def acquire(self) -> None:
        """Keeps the version loaded until release() is called. Calls nest."""
        self._num_users += 1
        self._is_idle.clear()

    def release(self) -> None:
        """Ends one acquire()."""
        self._num_users -= 1
        if not self._num_users:
            self._is_idle.set()

    async def until_idle(self) -> None:
        """Waits until every acquire() is released."""
        await self._is_idle.wait()

    def became_available(self, servable) -> None:
        """Notes that the version is loaded.

        Args:
            servable: Servable. The loaded version.
        """
        self.servable, self.state = servable, AVAILABLE

    def failed(self, error: str) -> None:
        """Notes that loading failed.

        Args:
            error: str. The reason, in one line.
        """
        self.state, self.error = END, error

    def ended(self) -> None:
        """Notes that the version is unloaded."""
        self.servable, self.state = None, END

    def status(self) -> dict:
        """Returns the entry of this version in the answer to a status request."""
        code = "FAILED_PRECONDITION" if self.error else "OK"
        return {
            "version": str(self.number),
            "state": self.state,
            "status": {"error_code": code, "error_message": self.error},
        }
