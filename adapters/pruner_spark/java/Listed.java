package pruner.spark;

/** A file index as it is without pruning. */
interface Listed {
  /** The files that Spark or Hudi itself finds for these filters. */
  $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters);

  Pruning pruning();
}
