package pruner.spark.statements;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import pruner.spark.iceberg.IcebergTables;
import scala.runtime.AbstractPartialFunction;

/** Collects the leaves of a plan that scan files, and replaces some of them. */
public final class Leaves extends AbstractPartialFunction {
  private final Map replacements;
  private final List found;

  /** `replacements` are by identity: the very leaves of the plan. */
  public Leaves(Map replacements, List found) {
    this.replacements = replacements;
    this.found = found;
  }

  public boolean isDefinedAt(Object node) {
    if (node instanceof LogicalRelation) {
      return ((LogicalRelation) node).relation() instanceof HadoopFsRelation;
    }
    return node instanceof DataSourceV2Relation
        && (((DataSourceV2Relation) node).table() instanceof FileTable
            || IcebergTables.isOne(((DataSourceV2Relation) node).table()));
  }

  public Object apply(Object node) {
    found.add(node);
    Object other = replacements.get(node);
    return other == null ? node : other;
  }
}
