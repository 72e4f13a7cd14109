package pruner.spark.delta;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import pruner.spark.indexes.Indexes;
import pruner.spark.indexes.Prunings;
import pruner.spark.scans.Pruning;

/**
 * Relations over Delta's tables. Before a query runs, Delta's optimizer rule gives them another index, of the version
 * that is scanned and of the files that Delta's statistics leave: that is the one to prune, so here the relation only
 * names its pruning (see DeltaScans).
 */
public final class DeltaIndexes extends Indexes {
  public FileIndex pruned(FileIndex base, Pruning pruning) {
    return base;
  }

  public void mark(SparkSession session, Pruning pruning, Map options) {
    options.put(Prunings.OPTION, DeltaScans.of(session).remember(pruning));
  }
}
