"""Train models and measure them: tasks, one trainer, checkpoints, decoding, metrics."""
