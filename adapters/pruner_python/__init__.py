"""Files for Python engines: what a plan keeps, as a Polars LazyFrame, a pyarrow Dataset or a DataFusion DataFrame.

Each engine has a module of its own, registered as an adapter, so that none is imported for another's sake.
"""
