package pruner.spark;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.runtime.AbstractPartialFunction;

/** The relations over files in an analysed plan, those in subqueries and views included. */
public final class Relations extends AbstractPartialFunction {
  private final Map replacements;
  private final List found;

  private Relations(Map replacements, List found) {
    this.replacements = replacements;
    this.found = found;
  }

  /** The leaves that scan files, each once, as they stand in the plan. */
  public static List of(LogicalPlan plan) {
    List found = new ArrayList();
    plan.transformUpWithSubqueries(new Relations(new IdentityHashMap(), found));
    return found;
  }

  /** The plan with other leaves in the places of some, which are given as they stand in the plan. */
  public static LogicalPlan replace(LogicalPlan plan, List leaves, List others) {
    Map replacements = new IdentityHashMap();
    for (int k = 0; k < leaves.size(); k++) {
      replacements.put(leaves.get(k), others.get(k));
    }
    return (LogicalPlan) plan.transformUpWithSubqueries(new Relations(replacements, new ArrayList()));
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof LogicalRelation
        && ((LogicalRelation) node).relation() instanceof HadoopFsRelation;
  }

  public Object apply(Object node) {
    found.add(node);
    Object other = replacements.get(node);
    return other == null ? node : other;
  }
}
