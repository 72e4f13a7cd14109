"""From a predicate and evidence to a scan plan and its report."""
