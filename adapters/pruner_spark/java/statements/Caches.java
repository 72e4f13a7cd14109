package pruner.spark.statements;

import java.lang.reflect.Method;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The parts of a plan that Spark has cached. */
public final class Caches {
  private static final String USE = "useCachedData";

  private Caches() {}

  /** The plan with cached parts replaced by their cached rows; all other nodes stay the same objects. */
  public static LogicalPlan used(SparkSession session, LogicalPlan plan) throws Throwable {
    Object cache = Sources.call(Sources.call(session, "sharedState"), "cacheManager");
    if (Boolean.TRUE.equals(Sources.call(cache, "isEmpty"))) {
      return plan;
    }
    Method[] methods = cache.getClass().getMethods();
    for (int k = 0; k < methods.length; k++) {
      if (methods[k].getName().equals(USE)) {
        return used(cache, methods[k], plan);
      }
    }
    throw new NoSuchMethodException(USE);
  }

  /** Later versions of Spark 4 have a parameter for the entries to use; its default is all of them. */
  private static LogicalPlan used(Object cache, Method use, LogicalPlan plan) throws Throwable {
    Object[] given = new Object[use.getParameterTypes().length];
    given[0] = plan;
    for (int k = 1; k < given.length; k++) {
      given[k] = Sources.call(cache, USE + "$default$" + (k + 1));
    }
    return (LogicalPlan) Sources.made(use, cache, given);
  }
}
