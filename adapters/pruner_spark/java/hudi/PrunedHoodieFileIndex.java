package pruner.spark.hudi;

import java.util.ArrayList;
import org.apache.hudi.HoodieFileIndex;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pruner.spark.indexes.Settleable;
import pruner.spark.indexes.Settled;
import pruner.spark.indexes.SettledFileIndex;
import pruner.spark.scans.Pruning;
import scala.collection.immutable.Map;

/**
 * Hudi's index with other options, pruned. It is of Hudi's own class, by which Hudi's optimizer rule recognizes it,
 * lists the partitions that a query needs and reports their size, which join planning uses.
 */
public final class PrunedHoodieFileIndex extends HoodieFileIndex implements Settleable {
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final Pruning pruning;

  public PrunedHoodieFileIndex(HoodieFileIndex base, Map options, Pruning pruning) {
    super(
        base.spark(),
        base.metaClient(),
        base.schemaSpec(),
        options,
        base.fileStatusCache(),
        base.includeLogFiles(),
        base.shouldEmbedFileSlices());
    this.pruning = pruning;
  }

  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return pruning.prune(this, this, partitionFilters, dataFilters);
  }

  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    return super.listFiles(partitionFilters, dataFilters);
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

  /**
   * Hudi reports 0 until it has listed its files, so that every table would be broadcast in a join. Its optimizer rule
   * lists those of a query in time, and notes it: a size of 0 then means partitions without files. For a plan that was
   * not optimized, the whole table is listed, unless that fails.
   */
  public long sizeInBytes() {
    long size = super.sizeInBytes();
    if (size != 0L || hasPredicatesPushedDown()) {
      return size;
    }
    $SEQ$ nothing = PythonUtils.toSeq(new ArrayList());
    try {
      super.listFiles(nothing, nothing);
    } catch (RuntimeException error) {
      LOGGER.info("the size of {} is not known: {}", this, error.toString());
    }
    return super.sizeInBytes();
  }

  public String toString() {
    return "pruner over " + super.toString();
  }
}
