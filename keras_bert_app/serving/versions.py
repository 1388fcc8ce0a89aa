"""One version of a model and what becomes of it, in the states of TensorFlow Serving."""

import asyncio

# The states of tensorflow.serving.ModelVersionStatus that a version passes through here.
LOADING, AVAILABLE, UNLOADING, END = "LOADING", "AVAILABLE", "UNLOADING", "END"


class Version:
    """A version that is or was loaded, or could not be. All but its loading happens in the event loop.

    Args:
        number: int. directory: of its files. fingerprint: of its files before loading; see models.fingerprint.

    Attributes:
        servable: Servable while AVAILABLE or UNLOADING. state: see above. error: why it could not be loaded, or "".
    """

    def __init__(self, number, directory, fingerprint):
        self.number, self.directory, self.fingerprint = number, directory, fingerprint
        self.servable, self.state, self.error = None, LOADING, ""
        self._num_users = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def acquire(self):
        """Keeps it loaded until release() is called as often."""
        self._num_users += 1
        self._is_idle.clear()

    def release(self):
        self._num_users -= 1
        if not self._num_users:
            self._is_idle.set()

    async def until_idle(self):
        await self._is_idle.wait()

    def became_available(self, servable):
        self.servable, self.state = servable, AVAILABLE

    def failed(self, error):
        self.state, self.error = END, error

    def ended(self):
        self.servable, self.state = None, END

    def status(self):
        """As in the answer of the status request."""
        code = "FAILED_PRECONDITION" if self.error else "OK"
        return {
            "version": str(self.number),
            "state": self.state,
            "status": {"error_code": code, "error_message": self.error},
        }
