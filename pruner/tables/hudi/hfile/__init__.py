"""HFiles of version 3, read by ranges: the sorted files in which Hudi's metadata table keeps its records.

The layout is that of HBase (reference guide, "HFile format version 2", appendix on version 3) as Hudi writes it
(Hudi's `hudi-io/hfile_format.md`). It has blocks with a header of 33 bytes, data blocks in key order, an index over
them of one or more levels, and a trailer of 4,096 bytes. Of a cell only the row, which is Hudi's key, and the value
are used.
"""
