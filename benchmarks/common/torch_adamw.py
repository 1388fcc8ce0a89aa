"""torch's AdamW as BERT uses it, for the scripts of the peers. Importing this module needs no TensorFlow."""

import torch

# Parts of the names of biases and LayerNorms: in BERT LayerNorm, in GPT2 ln_1, ln_2 and ln_f.
_NOT_DECAYED = ("bias", "LayerNorm", "ln_")


def fused_adamw(model, *, learning_rate, weight_decay, beta_2=0.999, epsilon=1e-6):
    """Fused AdamW that decays neither biases nor LayerNorm.

    Args:
        model: torch.nn.Module of transformers, whose names of weights say what is LayerNorm.
        learning_rate: float. The constant rate.
        weight_decay: float. Decay of the other weights.
        beta_2: float. Decay of the mean of squared gradients.
        epsilon: float. Added to the root of this mean.

    Returns:
        torch.optim.AdamW.
    """
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    is_decayed = {name: not any(word in name for word in _NOT_DECAYED) for name in trained}
    groups = [
        {
            "params": [value for name, value in trained.items() if is_decayed[name] == decayed],
            "weight_decay": weight_decay * decayed,
        }
        for decayed in (True, False)
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, beta_2), eps=epsilon, fused=True)
