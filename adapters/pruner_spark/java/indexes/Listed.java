package pruner.spark.indexes;

import org.apache.spark.sql.execution.datasources.FileIndex;
import pruner.spark.scans.Pruning;

/** A file index as it is without pruning. */
public interface Listed {
  /** The files that Spark or Hudi itself finds for these filters. */
  $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters);

  /** What settles its files before a scan asks for them; null where that is the format's own business. */
  Pruning pruning();

  /** The index that prunes itself; another one where files of it are settled. */
  FileIndex index();

  /** The version of the table that they are of, where a scan is of one; otherwise null. */
  String pinned();
}
