package pruner.spark.indexes;

import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import pruner.spark.scans.Pruning;

/**
 * The index of a table whose partitions are in the catalog. It is of Spark's own class, by which Spark's optimizer
 * (`PruneFileSourcePartitions`) finds the partitions that a query needs and their size, which join planning uses.
 */
public final class PrunedCatalogFileIndex extends CatalogFileIndex implements Settleable {
  private final CatalogFileIndex base;
  private final Pruning pruning;

  public PrunedCatalogFileIndex(CatalogFileIndex base, Pruning pruning) {
    super(pruning.reader(), base.table(), base.sizeInBytes());
    this.base = base;
    this.pruning = pruning;
  }

  public InMemoryFileIndex filterPartitions($SEQ$ filters) {
    return new PrunedInMemoryFileIndex(base.filterPartitions(filters), pruning);
  }

  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return pruning.prune(this, this, partitionFilters, dataFilters);
  }

  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return base.listFiles(partitionFilters, dataFilters);
  }

  public Pruning pruning() {
    return pruning;
  }

  public Settled settled() {
    return null;
  }

  public FileIndex with(Settled files) {
    return new SettledFileIndex(this, pruning, files);
  }

  public FileIndex index() {
    return this;
  }

  public String pinned() {
    return null;
  }

  public void refresh() {
    base.refresh();
  }

  public String toString() {
    return "pruner over " + base;
  }
}
