"""Fine-tuning: what a task is, one file per family of tasks, and the run from labelled files to a scored model."""
