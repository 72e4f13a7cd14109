package pruner.spark.delta;

import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import pruner.spark.indexes.Listed;
import pruner.spark.scans.Pruning;

/**
 * The index of a scan that Delta has prepared, pruned. It is one of Delta's own class, by which Delta finds its scans,
 * and equal to the one that it is over, so that Spark reuses exchanges. Delta itself answers from its log, and asks
 * again whether deletion vectors apply: nothing is settled before it.
 */
public final class PrunedDeltaFileIndex extends PreparedDeltaFileIndex implements Listed {
  private final Pruning pruning;

  public PrunedDeltaFileIndex(PreparedDeltaFileIndex base, Pruning pruning) {
    super(base.spark(), base.deltaLog(), base.path(), base.preparedScan(), base.versionScanned());
    this.pruning = pruning;
  }

  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return pruning.prune(this, this, partitionFilters, dataFilters);
  }

  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return super.listFiles(partitionFilters, dataFilters);
  }

  public FileIndex index() {
    return this;
  }

  /** The table's id and the version that is scanned: plans are of no other. */
  public String pinned() {
    Snapshot snapshot = preparedScan().scannedSnapshot();
    return snapshot.metadata().id() + " " + snapshot.version();
  }
}
