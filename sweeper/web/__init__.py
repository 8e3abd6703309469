"""Floor 6: the dashboard."""
