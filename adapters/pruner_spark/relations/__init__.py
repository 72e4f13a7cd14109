"""A relation that prunes itself: columns and slice keys, what a listing asks the planner, and the record of a scan."""
