package pruner.spark.delta;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import pruner.spark.executions.Listing;
import pruner.spark.indexes.Settleable;
import pruner.spark.indexes.Settled;
import pruner.spark.scans.Predicates;
import pruner.spark.scans.Pruning;
import scala.collection.Iterator;

/**
 * The index of a scan that Delta has prepared, pruned. It is of Delta's own class, by which Delta finds its scans and
 * asks for whole tables whether deletion vectors apply. Unless its files are settled, it is equal to the index that it
 * wraps, so that Spark reuses exchanges.
 */
public final class PrunedDeltaFileIndex extends PreparedDeltaFileIndex implements Settleable {
  private final PreparedDeltaFileIndex base;
  private final Pruning pruning;
  private final Settled settled;

  public PrunedDeltaFileIndex(PreparedDeltaFileIndex base, Pruning pruning) {
    this(base, pruning, null);
  }

  private PrunedDeltaFileIndex(PreparedDeltaFileIndex base, Pruning pruning, Settled settled) {
    super(base.spark(), base.deltaLog(), base.path(), base.preparedScan(), base.versionScanned());
    this.base = base;
    this.pruning = pruning;
    this.settled = settled;
  }

  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    if (settled == null) {
      return pruning.prune(this, this, partitionFilters, dataFilters);
    }
    pruning.listed(new Listing(settled.number(), this, partitionFilters, dataFilters));
    return listed(partitionFilters, dataFilters);
  }

  /**
   * Delta queries its log again if it has not prepared the scan for exactly these filters. Filters that came later, or
   * were not used, leave fewer files: those on partitions are applied here, and the rest by the planner.
   */
  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    if (settled != null) {
      return settled.among(partitionFilters, partitionSchema());
    }
    List prepared = list(preparedScan().filtersUsedForSkipping().iterator());
    List all = list(partitionFilters.iterator());
    all.addAll(list(dataFilters.iterator()));
    List later = Predicates.without(partitionFilters.iterator(), prepared);
    if (!Predicates.areAmong(prepared, all) || !areOfPartitions(later)) {
      return super.listFiles(partitionFilters, dataFilters);
    }
    $SEQ$ folders = super.listFiles(PythonUtils.toSeq(new ArrayList()), PythonUtils.toSeq(prepared));
    return Settled.among(folders, later, partitionSchema());
  }

  /** Whether all columns of the filters are partition columns, by their exact names. */
  private boolean areOfPartitions(List filters) {
    List names = Arrays.asList(partitionSchema().fieldNames());
    for (int k = 0; k < filters.size(); k++) {
      Iterator each = ((Expression) filters.get(k)).references().iterator();
      while (each.hasNext()) {
        if (!names.contains(((Attribute) each.next()).name())) {
          return false;
        }
      }
    }
    return true;
  }

  private static List list(Iterator each) {
    List found = new ArrayList();
    while (each.hasNext()) {
      found.add(each.next());
    }
    return found;
  }

  public Pruning pruning() {
    return pruning;
  }

  public Settled settled() {
    return settled;
  }

  public FileIndex with(Settled files) {
    return new PrunedDeltaFileIndex(base, pruning, files);
  }

  public FileIndex index() {
    return this;
  }

  /** The table's id and the version that is scanned: plans are for exactly these. */
  public String pinned() {
    Snapshot snapshot = preparedScan().scannedSnapshot();
    return snapshot.metadata().id() + " " + snapshot.version();
  }

  public int hashCode() {
    return super.hashCode();
  }

  /** Equal scans run once. The options of their relations distinguish those whose files are settled from all others. */
  public boolean equals(Object other) {
    Settled others = other instanceof PrunedDeltaFileIndex ? ((PrunedDeltaFileIndex) other).settled : null;
    return super.equals(other) && (settled == null ? others == null : settled.equals(others));
  }
}
