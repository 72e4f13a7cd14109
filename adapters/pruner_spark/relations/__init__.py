"""A self-pruning relation: its columns and slice keys, the calls of a listing to the planner, and records of scans."""
