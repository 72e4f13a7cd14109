package pruner.spark.indexes;

import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import pruner.spark.executions.Listing;
import pruner.spark.scans.Pruning;

/** Files that were listed and planned while the query was optimized: no others are read, whatever changes. */
public final class SettledFileIndex implements FileIndex, Settleable {
  private final FileIndex base;
  private final Pruning pruning;
  private final Settled settled;

  public SettledFileIndex(FileIndex base, Pruning pruning, Settled settled) {
    this.base = base;
    this.pruning = pruning;
    this.settled = settled;
  }

  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    pruning.listed(new Listing(settled.number(), this, partitionFilters, dataFilters));
    return listed(partitionFilters, dataFilters);
  }

  /** The keys of a join may leave fewer of these files, too. */
  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return settled.among(partitionFilters, partitionSchema());
  }

  public Pruning pruning() {
    return pruning;
  }

  public Settled settled() {
    return settled;
  }

  public FileIndex with(Settled files) {
    return new SettledFileIndex(base, pruning, files);
  }

  public FileIndex index() {
    return base;
  }

  public String pinned() {
    return ((Listed) base).pinned();
  }

  public $SEQ$ rootPaths() {
    return base.rootPaths();
  }

  public String[] inputFiles() {
    return base.inputFiles();
  }

  public void refresh() {}

  public long sizeInBytes() {
    return base.sizeInBytes();
  }

  public StructType partitionSchema() {
    return base.partitionSchema();
  }

  public scala.Option metadataOpsTimeNs() {
    return base.metadataOpsTimeNs();
  }

  public String toString() {
    return "settled over " + base;
  }

  public int hashCode() {
    return base.hashCode();
  }

  /** Equal scans run once: those of the same files. */
  public boolean equals(Object other) {
    return other instanceof SettledFileIndex
        && base.equals(((SettledFileIndex) other).base)
        && settled.equals(((SettledFileIndex) other).settled);
  }
}
