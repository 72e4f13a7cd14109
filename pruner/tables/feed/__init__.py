"""A change feed: events that name added, removed and replaced files of a table (docs/feed.md)."""
