"""Hudi tables made of their files alone, without a writer."""
