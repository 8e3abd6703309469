"""Floor 6: the study: its file, its search, its executors, its loop."""
