"""Training and evaluation of models: tasks, the trainer, checkpoints, decoding, metrics."""
