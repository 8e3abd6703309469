"""Floor 3: one trial, from its spec to its result."""
