"""Real Hudi tables that tests read, and what Spark and hudi-rs read of them."""
