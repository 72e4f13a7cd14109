package pruner.spark.statements;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Puts self-pruning relations into a plan. */
public interface Rewriter {
  /**
   * A plan in which some relations prune themselves. Each line of `chosen` has the position of one of them and, after a
   * tab, the planner's name for what is read and how. A third part, `keys`, says that this is less than what the
   * scan's predicate says. `patience` is in milliseconds.
   */
  LogicalPlan prune(LogicalPlan plan, Relations relations, String chosen, long patience, SparkSession session)
      throws ReflectiveOperationException;
}
