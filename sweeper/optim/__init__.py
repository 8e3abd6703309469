"""Floor 1: optimizers and schedules."""
