package pruner.spark.indexes;

import org.apache.spark.sql.execution.datasources.FileIndex;

/** The unpruned view of a file index. */
public interface Listed {
  /** The files that Spark or Hudi itself finds for these filters. */
  $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters);

  /** The self-pruning index; where files are settled, the index that they come from. */
  FileIndex index();

  /** The version of the table that the files belong to, where a scan has a fixed one; otherwise null. */
  String pinned();
}
