"""The training loop: steps, checkpoints, schedules, settings, signals, and the same over several processes."""
