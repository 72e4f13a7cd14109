"""File slices with log files, merged by hudi-rs where it merges them as Hudi does."""
