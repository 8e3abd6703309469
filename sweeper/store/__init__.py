"""Floor 4: the results database; its only writer and all its queries."""
