package pruner.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import pruner.spark.indexes.Settleable;
import pruner.spark.indexes.Settled;
import pruner.spark.scans.Asking;
import pruner.spark.scans.Predicates;
import pruner.spark.statements.Relations;
import scala.Tuple2;
import scala.collection.Iterator;

/** Files that an index lists. They are settled: planned once, while the query is optimized. */
final class ScannedFiles extends Scanned {
  private static final long UNKNOWN_FILES = 1_000L;

  /** Marks relations that read less than others and must not be taken for them: Delta's indexes are equal to ours. */
  private static final Tuple2 MARK = new Tuple2("pruner.settled", "true");

  private final LogicalRelation relation;
  private final Settleable index;

  ScannedFiles(LogicalRelation relation, Settleable index) {
    super(relation);
    this.relation = relation;
    this.index = index;
  }

  long bytes() {
    return ((FileIndex) index).sizeInBytes();
  }

  long files() {
    if (isSettled()) {
      return index.settled().count();
    }
    return index instanceof InMemoryFileIndex ? ((InMemoryFileIndex) index).allFiles().size() : UNKNOWN_FILES;
  }

  boolean isSettled() {
    return index.settled() != null;
  }

  boolean isAmong(List conditions, List filters) {
    return isSettled() && index.settled().isSettledBy(conditions);
  }

  LogicalPlan among(List conditions, List filters) throws IOException {
    return over(settled(null, filters, conditions));
  }

  LogicalPlan first(Map question, Expression column, List filters) throws IOException {
    return over(settled(question, filters, new ArrayList()));
  }

  /** The files that are left, see Pruning; `more` are conditions on columns that hold in addition to the filters. */
  Settled settled(Map question, List filters, List more) throws IOException {
    HadoopFsRelation read = (HadoopFsRelation) relation.relation();
    List all = new ArrayList(filters);
    all.addAll(more);
    $SEQ$ normalized = ($SEQ$) DataSourceStrategy$.MODULE$.normalizeExprs(PythonUtils.toSeq(all), relation.output());
    scala.collection.Seq columns = relation.resolve(read.partitionSchema(), SQLConf.get().resolver());
    // As Spark's strategy for file scans finds them: it relies on their having been applied.
    $SEQ$ partitions =
        ($SEQ$)
            DataSourceStrategy$.MODULE$.getPushedDownFilters(($SEQ$) columns, normalized).toSeq();
    Asking asking = new Asking(question, beyond(normalized, AttributeSet$.MODULE$.apply(columns)));
    Settled files = index.pruning().settle(index.index(), index, partitions, normalized, asking);
    files.settledBy(more, index.settled());
    return files;
  }

  /** What the filters demand beyond those on partitions alone, which the listing has applied; null for nothing. */
  private static Expression beyond(scala.collection.Seq filters, AttributeSet partitions) {
    List found = new ArrayList();
    Iterator each = filters.iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (filter.references().isEmpty() || !filter.references().subsetOf(partitions)) {
        found.add(filter);
      }
    }
    return found.isEmpty() ? null : Predicates.conjunction(found);
  }

  /** The same relation over settled files. */
  LogicalPlan over(Settled files) {
    scala.collection.immutable.Map options = ((HadoopFsRelation) relation.relation()).options();
    return Relations.with(relation, index.with(files), (scala.collection.immutable.Map) options.$plus(MARK));
  }
}
