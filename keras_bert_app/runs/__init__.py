"""What a run keeps on disk: its work directory and its checkpoints."""
