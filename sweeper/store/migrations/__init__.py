"""Migrations of the tables, run by `sweeper.store.migrate`. Views are not migrated: they are
dropped before an upgrade and created anew after it.
"""
