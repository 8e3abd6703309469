"""Floor 1: environments, many at once. Nothing here imports torch, optuna or ray."""
