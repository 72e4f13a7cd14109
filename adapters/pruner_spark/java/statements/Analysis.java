package pruner.spark.statements;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.internal.SessionState;
import scala.runtime.AbstractFunction0;

/** Parses and analyzes a statement, without running it; errors are returned, as Scala's functions declare none. */
public final class Analysis extends AbstractFunction0 {
  private final SparkSession session;
  private final String query;

  public Analysis(SparkSession session, String query) {
    this.session = session;
    this.query = query;
  }

  public Object apply() {
    try {
      // From Spark 4 on, a session has its state in a subclass.
      SessionState state = (SessionState) Sources.call(session, "sessionState");
      LogicalPlan parsed = state.sqlParser().parsePlan(query);
      return state.executePlan(parsed, CommandExecutionMode$.MODULE$.SKIP()).analyzed();
    } catch (Throwable error) {
      return error;
    }
  }
}
