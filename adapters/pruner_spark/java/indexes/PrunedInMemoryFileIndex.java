package pruner.spark.indexes;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.types.StructType;
import pruner.spark.scans.Pruning;
import scala.collection.immutable.Map;
import scala.collection.mutable.LinkedHashSet;

/**
 * The index over files that Spark has listed. It is of Spark's own class, which the optimizer requires for the
 * partitions of a table in the catalog, and equal to the index that it wraps: so Spark finds what it has cached, and
 * reuses exchanges. It lists nothing itself.
 */
public final class PrunedInMemoryFileIndex extends InMemoryFileIndex implements Settleable {
  private final InMemoryFileIndex base;
  private final Pruning pruning;

  public PrunedInMemoryFileIndex(InMemoryFileIndex base, Pruning pruning) {
    super(
        pruning.reader(),
        PythonUtils.toSeq(new ArrayList()),
        (Map) scala.Predef$.MODULE$.Map().empty(),
        scala.Option.apply(base.partitionSchema()),
        NoopCache$.MODULE$,
        scala.Option.apply(base.partitionSpec()),
        base.metadataOpsTimeNs());
    this.base = base;
    this.pruning = pruning;
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

  /** The constructor of Spark's class also calls this, before `base` is set. */
  public $SEQ$ rootPaths() {
    return base == null ? super.rootPaths() : base.rootPaths();
  }

  public LinkedHashSet listLeafFiles($SEQ$ paths) {
    return base == null ? new LinkedHashSet() : base.listLeafFiles(paths);
  }

  public PartitionSpec partitionSpec() {
    return base.partitionSpec();
  }

  public StructType partitionSchema() {
    return base.partitionSchema();
  }

  public $SEQ$ allFiles() {
    return base.allFiles();
  }

  public String[] inputFiles() {
    return base.inputFiles();
  }

  public long sizeInBytes() {
    return base.sizeInBytes();
  }

  public void refresh() {
    base.refresh();
  }

  public String toString() {
    return "pruner over " + base;
  }
}
