"""The planner's service and its pages, as tests use them."""
