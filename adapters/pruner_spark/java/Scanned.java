package pruner.spark;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import pruner.spark.iceberg.IcebergTasks;
import pruner.spark.indexes.Settleable;

/** The leaf of an optimized plan that reads a pruned table, and some of whose files an optimizer rule leaves out. */
abstract class Scanned {
  final LogicalPlan leaf;

  Scanned(LogicalPlan leaf) {
    this.leaf = leaf;
  }

  /** The pruned leaf; null for one that is not pruned, or not known to be the same whenever it is read. */
  static Scanned of(LogicalPlan leaf, SparkSession session) {
    if (leaf.isStreaming()) {
      return null;
    }
    if (leaf instanceof DataSourceV2ScanRelation) {
      return ScannedTasks.of((DataSourceV2ScanRelation) leaf, session);
    }
    boolean files = leaf instanceof LogicalRelation && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation;
    if (!files) {
      return null;
    }
    Object index = ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location();
    return index instanceof Settleable ? new ScannedFiles((LogicalRelation) leaf, (Settleable) index) : null;
  }

  /** The size of the files in bytes. */
  abstract long bytes();

  /** How many files there are; where only a listing would tell, the number assumed for a table of some size. */
  abstract long files();

  /** Whether conditions (see `among`) have been applied to the files already; `filters` are those above the leaf. */
  abstract boolean isAmong(List conditions, List filters);

  /** The leaf without files in which no row meets the filters and the conditions, or the leaf itself. */
  abstract LogicalPlan among(List conditions, List filters) throws IOException;

  /** The leaf without files that hold none of the requested first rows, or the leaf itself; see Shortcuts. */
  abstract LogicalPlan first(Map question, Expression column, List filters) throws Throwable;
}
