"""Training: devices, optimizers, losses, the training loop and the output of a run."""
