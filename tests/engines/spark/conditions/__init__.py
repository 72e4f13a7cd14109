"""Conditions and functions as Spark means them."""
