"""Settings with which our optimizer does what the peers' optimizers do."""


def optimizer_settings(*, precision, learning_rate, beta_2=0.999, epsilon=1e-6, weight_decay=0.01):
    """Fields of a training configuration, as a dict.

    The peers correct the bias of Adam's means. Their rate is constant.

    Args:
        precision: str. Compute type.
        learning_rate: float.
        beta_2: float. Decay of the mean of squared gradients.
        epsilon: float. Added to the root of this mean.
        weight_decay: float. Decay of all weights but biases and LayerNorm.
    """
    return {
        "precision": precision,
        "learning_rate": learning_rate,
        "learning_rate_schedule": "constant",
        "num_warmup_steps": 0,
        "adam_beta_2": beta_2,
        "adam_epsilon": epsilon,
        "weight_decay_rate": weight_decay,
        "bias_correction": True,
    }
