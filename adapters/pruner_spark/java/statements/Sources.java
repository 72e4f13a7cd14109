package pruner.spark.statements;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;

/**
 * The part of a statement that only reads: a query, the source of INSERT, CREATE TABLE AS and MERGE, and the query by
 * which Hudi's UPDATE and DELETE find the rows that they change. Delta's find theirs by themselves.
 */
public final class Sources {
  private static final String DELTA = "org.apache.spark.sql.delta.commands.";

  private Sources() {}

  /** The part that reads; null for any other command, which runs unchanged. */
  public static LogicalPlan of(LogicalPlan plan) {
    if (!(plan instanceof Command)) {
      return plan;
    }
    Object merge = call(plan, "mergeInto");
    if (merge instanceof MergeIntoTable) {
      return ((MergeIntoTable) merge).sourceTable();
    }
    if (changesDelta(plan)) {
      Object source = call(plan, "source");
      return source instanceof LogicalPlan ? (LogicalPlan) source : null;
    }
    Object query = call(plan, "query");
    return query instanceof LogicalPlan ? (LogicalPlan) query : null;
  }

  /** Whether it is Hudi's UPDATE or DELETE, which runs at once. */
  public static boolean changesRows(LogicalPlan plan) {
    String kind = plan.getClass().getSimpleName();
    return kind.equals("UpdateHoodieTableCommand") || kind.equals("DeleteHoodieTableCommand");
  }

  /** Whether it is Delta's UPDATE, DELETE or MERGE, which itself finds the files that it changes. */
  public static boolean changesDelta(LogicalPlan plan) {
    String kind = plan.getClass().getName();
    return kind.startsWith(DELTA)
        && (kind.endsWith(".DeleteCommand")
            || kind.endsWith(".UpdateCommand")
            || kind.endsWith(".MergeIntoCommand"));
  }

  /** What a MERGE INTO does; null for every other statement. */
  public static Merging merging(LogicalPlan plan) {
    Object merge = plan instanceof Command ? call(plan, "mergeInto") : null;
    return merge instanceof MergeIntoTable
        ? new Merging((MergeIntoTable) merge, ((MergeIntoTable) merge).sourceTable())
        : null;
  }

  /** The same statement with another source, or another table that it merges into. */
  public static LogicalPlan replace(LogicalPlan plan, LogicalPlan old, LogicalPlan source) {
    if (plan == old) {
      return source;
    }
    Object[] parts = new Object[plan.productArity()];
    for (int k = 0; k < parts.length; k++) {
      Object part = plan.productElement(k);
      boolean merge =
          part instanceof MergeIntoTable
              && (((MergeIntoTable) part).sourceTable() == old || ((MergeIntoTable) part).targetTable() == old);
      // A write by Spark's V2 interface has its query twice: Delta reads the one that was stored at analysis.
      boolean kept = part instanceof scala.Option && ((scala.Option) part).contains(old);
      parts[k] =
          part == old
              ? source
              : kept ? scala.Option.apply(source) : merge ? replace((LogicalPlan) part, old, source) : part;
    }
    return (LogicalPlan) plan.makeCopy(parts);
  }

  /** Calls a method that cannot be named where this is compiled, and throws the method's own errors. */
  public static Object made(Method method, Object object, Object[] given) throws Throwable {
    try {
      return method.invoke(object, given);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  /** Calls a method without arguments that not all objects have; null where this one does not, or where it fails. */
  public static Object call(Object object, String name) {
    try {
      Method method = object.getClass().getMethod(name, new Class[0]);
      return method.invoke(object, new Object[0]);
    } catch (ReflectiveOperationException error) {
      return null;
    }
  }
}
