"""The files of a run: its work directory and its checkpoints."""
