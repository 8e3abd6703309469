"""Floor 2: policies, rollouts and learners."""
