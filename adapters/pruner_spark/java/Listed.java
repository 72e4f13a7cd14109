package pruner.spark;

/** A file index as it is without pruning. */
interface Listed {
  /** The files that Spark or Hudi itself finds for these filters. */
  $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters);

  /** The version of the table that they are of, where a scan is of one; otherwise null. */
  String pinned();
}
