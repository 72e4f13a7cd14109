"""What tests share: Spark sessions, real tables, and what Spark says about them."""
