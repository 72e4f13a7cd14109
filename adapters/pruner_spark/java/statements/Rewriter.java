package pruner.spark.statements;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** What puts relations that prune themselves into a plan. */
public interface Rewriter {
  /**
   * A plan in which some relations prune themselves. A line of `chosen` has the position of one of them and, after a
   * tab, the planner's name for what is read and how. A third part, `keys`, tells that this is less than what the
   * predicate of the scan says. `patience` is in milliseconds.
   */
  LogicalPlan prune(LogicalPlan plan, Relations relations, String chosen, long patience, SparkSession session)
      throws ReflectiveOperationException;
}
