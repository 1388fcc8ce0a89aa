"""Fine-tuning: tasks, families of tasks, readers of labelled files, and runs."""
