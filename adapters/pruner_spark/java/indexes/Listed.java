package pruner.spark.indexes;

import org.apache.spark.sql.execution.datasources.FileIndex;

/** A file index as it is without pruning. */
public interface Listed {
  /** The files that Spark or Hudi itself finds for these filters. */
  $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters);

  /** The index that prunes itself; another one where files of it are settled. */
  FileIndex index();

  /** The version of the table that they are of, where a scan is of one; otherwise null. */
  String pinned();
}
