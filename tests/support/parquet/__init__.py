"""Parquet files of many writers, and their statistics."""
