"""Regression tests of wrong answers: one for each trap of docs/traps.md, and for each row that pruner has lost.

README.md in this folder says how the files and tests are named, and what each test asserts.
"""
