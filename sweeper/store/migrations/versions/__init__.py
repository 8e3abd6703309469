"""One file a revision, numbered in order: v0001_..., v0002_..."""
