package pruner.spark.indexes;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import pruner.spark.executions.Listing;
import pruner.spark.scans.Predicates;
import pruner.spark.scans.Pruning;
import pruner.spark.scans.Settled;
import scala.collection.Iterator;
import scala.runtime.AbstractPartialFunction;

/** Files that were listed, and planned over, while the query was optimized: no others are read, whatever comes. */
public final class SettledFileIndex implements FileIndex, Settleable {
  private final FileIndex base;
  private final Pruning pruning;
  private final long number;
  private final $SEQ$ files;
  private final $SEQ$ partitionFilters;
  private final String answer;
  private final List conditions = new ArrayList();

  public SettledFileIndex(FileIndex base, Pruning pruning, Settled settled, $SEQ$ partitionFilters) {
    this.base = base;
    this.pruning = pruning;
    number = settled.number();
    files = settled.files();
    this.partitionFilters = partitionFilters;
    answer = settled.answer();
  }

  /** What is proved of the rows of all other files, as JSON; null where nothing is. */
  public String answer() {
    return answer;
  }

  /** Takes note of conditions besides filters, and of those of files that were settled before. */
  public void settledBy(List conditions, Listed before) {
    if (before instanceof SettledFileIndex) {
      this.conditions.addAll(((SettledFileIndex) before).conditions);
    }
    this.conditions.addAll(conditions);
  }

  public boolean isSettledBy(List asked) {
    for (int k = 0; k < asked.size(); k++) {
      if (!isAmong((Expression) asked.get(k), conditions.iterator())) {
        return false;
      }
    }
    return true;
  }

  private static boolean isAmong(Expression condition, java.util.Iterator known) {
    while (known.hasNext()) {
      if (((Expression) known.next()).semanticEquals(condition)) {
        return true;
      }
    }
    return false;
  }

  /** How many files they are. */
  public int count() {
    int count = 0;
    Iterator partitions = files.iterator();
    while (partitions.hasNext()) {
      count += ((PartitionDirectory) partitions.next()).files().size();
    }
    return count;
  }

  public boolean isEmpty() {
    return files.isEmpty();
  }

  /** Spark trusts that filters on partitions have been seen to: those that came later are seen to here. */
  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    pruning.listed(new Listing(number, this, partitionFilters, dataFilters));
    List more = new ArrayList();
    Iterator each = partitionFilters.iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (!isKnown(filter)) {
        more.add(filter);
      }
    }
    return more.isEmpty() ? files : among(more);
  }

  /** For keys of a join, which may leave fewer of the files. */
  public $SEQ$ listed($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    List filters = new ArrayList();
    Iterator each = partitionFilters.iterator();
    while (each.hasNext()) {
      filters.add(each.next());
    }
    return filters.isEmpty() ? files : among(filters);
  }

  public Pruning pruning() {
    return pruning;
  }

  public FileIndex index() {
    return base;
  }

  public String pinned() {
    return ((Listed) base).pinned();
  }

  private boolean isKnown(Expression filter) {
    Iterator each = partitionFilters.iterator();
    while (each.hasNext()) {
      if (((Expression) each.next()).semanticEquals(filter)) {
        return true;
      }
    }
    return false;
  }

  private $SEQ$ among(List filters) {
    List found = new ArrayList();
    Expression condition = Predicates.conjunction(filters);
    InterpretedPredicate predicate =
        Predicate$.MODULE$.createInterpreted(
            (Expression) condition.transformUp(new Bound(partitionSchema())));
    Iterator each = files.iterator();
    while (each.hasNext()) {
      PartitionDirectory partition = (PartitionDirectory) each.next();
      if (predicate.eval(partition.values())) {
        found.add(partition);
      }
    }
    return PythonUtils.toSeq(found);
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

  /** Equal scans are run once: those of the same files. */
  public boolean equals(Object other) {
    return other instanceof SettledFileIndex
        && base.equals(((SettledFileIndex) other).base)
        && names(files).equals(names(((SettledFileIndex) other).files));
  }

  private static List names($SEQ$ files) {
    List names = new ArrayList();
    Iterator partitions = files.iterator();
    while (partitions.hasNext()) {
      Iterator each = ((PartitionDirectory) partitions.next()).files().iterator();
      while (each.hasNext()) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) each.next();
        names.add(file.getPath() + "\t" + file.getLen() + "\t" + file.getModificationTime());
      }
    }
    return names;
  }

  /** Columns of partitions by their places in what a listing says of them. */
  private static final class Bound extends AbstractPartialFunction {
    private final StructType schema;

    Bound(StructType schema) {
      this.schema = schema;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Attribute;
    }

    public Object apply(Object node) {
      Attribute attribute = (Attribute) node;
      return new BoundReference(schema.fieldIndex(attribute.name()), attribute.dataType(), true);
    }
  }
}
