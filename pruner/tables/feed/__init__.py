"""A change feed: events that name the files of a table that came, went or were replaced (docs/feed.md)."""
