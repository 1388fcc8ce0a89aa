"""NVIDIA GPUs: the precision that suits a GPU, and runs that reproduce the same bits."""

import dataclasses
import re

import tensorflow as tf

from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.errors import UserError

# Pattern of the product name, such as "NVIDIA A100-SXM4-80GB" or "Tesla T4" -> name in estimation.hardware.
_HARDWARE = (
    ("A100.*80 ?GB", "a100-80gb"),
    ("A100", "a100"),
    ("H100", "h100"),
    ("H200", "h200"),
    ("A10G", "a10g"),
    (r"\bL4\b", "l4"),
    ("RTX 4090", "rtx4090"),
    (r"\bT4\b", "t4"),
    ("V100", "v100"),
)


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        name: the product name, such as "NVIDIA H200".
        capability: CUDA compute capability, such as (9, 0).
    """

    name: str
    capability: tuple[int, int]

    @property
    def precision(self) -> str:
        """The precision that --precision=auto selects: the fastest one that trains to the same losses."""
        if self.capability >= (8, 0):
            return "bfloat16"
        return "float16" if self.capability >= (7, 0) else "float32"

    @property
    def hardware(self) -> str:
        """The name of this GPU in estimation.hardware; "" if it is not listed there."""
        return next((name for pattern, name in _HARDWARE if re.search(pattern, self.name)), "")

    def why(self, precision: str) -> str:
        """Explains in a few words what a precision means on this GPU.

        Args:
            precision: "float32", "bfloat16" or "float16".
        """
        if precision == "float32":
            return "products in TF32" if self.capability >= (8, 0) else "no tensor cores for float32"
        if self.capability < ((8, 0) if precision == "bfloat16" else (7, 0)):
            return f"no tensor cores for {precision}"
        return f"its tensor cores multiply {precision}" + (", with loss scaling" if precision == "float16" else "")


def first() -> Gpu | None:
    """The first GPU that TensorFlow sees, or None."""
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return None
    details = tf.config.experimental.get_device_details(devices[0])
    return Gpu(details.get("device_name", "GPU"), tuple(details.get("compute_capability", (0, 0))))


def make_deterministic(run: TrainingConfig) -> None:
    """Makes every op of this process give the same bits for the same input.

    Args:
        run: TrainingConfig, whose --jit_compile is resolved.

    Raises:
        UserError: XLA does not compile the step as a whole.
    """
    if run.jit_compile != "step":
        raise UserError(
            f"--deterministic with --jit_compile={run.jit_compile}: on a GPU only a step that XLA compiles whole gives "
            "the same bits again; leave --jit_compile out"
        )
    # With determinism, an op that draws random numbers fails if neither the op nor the process has a seed.
    tf.random.set_seed(run.seed)
    tf.config.experimental.enable_op_determinism()
