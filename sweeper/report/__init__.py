"""Floor 5: from rows to fronts, intervals, figures and exports."""
