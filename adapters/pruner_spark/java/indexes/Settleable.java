package pruner.spark.indexes;

import org.apache.spark.sql.execution.datasources.FileIndex;
import pruner.spark.scans.Pruning;

/** An index whose files may be settled before a scan asks for them. */
public interface Settleable extends Listed {
  /** What settles them. */
  Pruning pruning();

  /** The files, where they are settled; null where a scan still chooses them. */
  Settled settled();

  /** The same over files that are settled. */
  FileIndex with(Settled files);
}
