package pruner.spark.indexes;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import pruner.spark.scans.Predicates;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;

/** The files that are left of a scan that was planned while the query was optimized: no others are read. */
public final class Settled {
  private final long number;
  private final $SEQ$ files;
  private final $SEQ$ partitionFilters;
  private final String answer;
  private final List conditions = new ArrayList();

  /** `answer` is what is proved about the rows of all other files, as JSON; null where nothing is. */
  public Settled(long number, $SEQ$ files, $SEQ$ partitionFilters, String answer) {
    this.number = number;
    this.files = files;
    this.partitionFilters = partitionFilters;
    this.answer = answer;
  }

  /** The number of the scan. */
  public long number() {
    return number;
  }

  public String answer() {
    return answer;
  }

  /** Records conditions besides the filters, and those of `before`, by which files were settled before, or null. */
  public void settledBy(List conditions, Settled before) {
    if (before != null) {
      this.conditions.addAll(before.conditions);
    }
    this.conditions.addAll(conditions);
  }

  public boolean isSettledBy(List asked) {
    return Predicates.areAmong(asked, conditions);
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

  /** Spark relies on filters on partitions having been applied: those that came later are applied here. */
  public $SEQ$ among($SEQ$ filters, StructType partitions) {
    List known = JavaConverters.seqAsJavaList(partitionFilters);
    return among(files, Predicates.without(filters.iterator(), known), partitions);
  }

  /** The directories whose partition values meet all filters. */
  public static $SEQ$ among($SEQ$ folders, List filters, StructType partitions) {
    if (filters.isEmpty()) {
      return folders;
    }
    List found = new ArrayList();
    Expression condition = Predicates.conjunction(filters);
    InterpretedPredicate predicate =
        Predicate$.MODULE$.createInterpreted((Expression) condition.transformUp(new Bound(partitions)));
    Iterator each = folders.iterator();
    while (each.hasNext()) {
      PartitionDirectory partition = (PartitionDirectory) each.next();
      if (predicate.eval(partition.values())) {
        found.add(partition);
      }
    }
    return PythonUtils.toSeq(found);
  }

  public int hashCode() {
    return names().hashCode();
  }

  /** Whether they are the same files. */
  public boolean equals(Object other) {
    return other instanceof Settled && names().equals(((Settled) other).names());
  }

  private List names() {
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

  /** Binds partition columns to their positions in the partition values of a listing. */
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
