"""The commit protocol: a model that is searched exhaustively, and the real code under seeded schedules."""
