"""The trainer: strategy, optimizer, losses, the one loop, checkpoints, reporting."""
