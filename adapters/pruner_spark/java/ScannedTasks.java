package pruner.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import pruner.spark.iceberg.IcebergScans;
import pruner.spark.iceberg.IcebergTasks;
import pruner.spark.indexes.Prunings;
import pruner.spark.scans.Predicates;
import pruner.spark.scans.Pruning;

/**
 * The tasks of an Iceberg scan. Iceberg may consider two scans equal although one has fewer files left, and Spark would
 * use the rows of one for the other. So nothing is settled here: the condition that leaves out files becomes a filter
 * over the scan, which is correct wherever it is evaluated, and which prunes the scan when Spark plans it.
 */
final class ScannedTasks extends Scanned {
  /** Marks scans whose first rows the planner was asked about: the rule runs until nothing changes. */
  private static final TreeNodeTag ASKED = new TreeNodeTag("pruner.asked");

  private final DataSourceV2ScanRelation relation;
  private final Pruning pruning;
  private final IcebergTasks tasks;

  private ScannedTasks(DataSourceV2ScanRelation relation, Pruning pruning, IcebergTasks tasks) {
    super(relation);
    this.relation = relation;
    this.pruning = pruning;
    this.tasks = tasks;
  }

  static ScannedTasks of(DataSourceV2ScanRelation relation, SparkSession session) {
    boolean named = relation.relation().options().get(Prunings.OPTION) != null;
    Pruning pruning = named ? IcebergScans.of(session).pruning(relation) : null;
    IcebergTasks tasks = pruning == null ? null : IcebergTasks.of(relation.scan());
    return tasks == null ? null : new ScannedTasks(relation, pruning, tasks);
  }

  /** The bytes that a scan reads; -1 where they are unknown, or may change until the next read. */
  static long bytes(DataSourceV2ScanRelation relation) {
    IcebergTasks tasks = IcebergTasks.of(relation.scan());
    return tasks == null ? -1L : tasks.bytes();
  }

  long bytes() {
    return tasks.bytes();
  }

  long files() {
    return tasks.count();
  }

  boolean isAmong(List conditions, List filters) {
    return Predicates.areAmong(conditions, filters);
  }

  LogicalPlan among(List conditions, List filters) {
    return new Filter(Predicates.conjunction(conditions), relation);
  }

  LogicalPlan first(Map question, Expression column, List filters) throws Throwable {
    if (column == null || relation.getTagValue(ASKED).isDefined()) {
      return relation;
    }
    relation.setTagValue(ASKED, Boolean.TRUE);
    Map asked = new HashMap(question);
    asked.put("threshold", Boolean.TRUE);
    String answer = tasks.asked(relation.scan(), filters, asked, pruning);
    if (answer == null) {
      return relation;
    }
    JsonNode told = new ObjectMapper().readTree(answer);
    Literal threshold = new Literal(Aggregation.value((JsonNode) told.path("threshold"), column.dataType()), column.dataType());
    Expression reached =
        question.get("descending").equals(Boolean.TRUE)
            ? (Expression) new GreaterThanOrEqual(column, threshold)
            : new LessThanOrEqual(column, threshold);
    boolean nulls = question.get("nulls_first").equals(Boolean.TRUE);
    return new Filter(nulls ? new Or(new IsNull(column), reached) : reached, relation);
  }
}
