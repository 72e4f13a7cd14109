"""Hudi's own metadata table: a merge-on-read Hudi table of HFiles in `.hoodie/metadata`, one partition per index."""
