package pruner.spark.statements;

import java.io.IOException;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import pruner.spark.Shortcuts;
import scala.Function0;

/**
 * A statement that was analyzed once: the planner is given what it reads, and says which relations prune themselves,
 * and the statement runs as analyzed. Python makes three calls for it, however many relations there are.
 */
public final class Statement {
  private final Rewriter rewriter;
  private final SparkSession session;
  private final LogicalPlan plan;
  private final LogicalPlan source;
  private final boolean direct;
  private Relations relations;

  public Statement(Rewriter rewriter, SparkSession session, LogicalPlan plan) {
    this.rewriter = rewriter;
    this.session = session;
    this.plan = plan;
    source = Sources.of(plan);
    direct = Sources.merging(plan) == null && !Sources.changesRows(plan);
  }

  /** Spark's parser uses the settings of the active session, which may be another one. */
  public static LogicalPlan analyzed(SparkSession session, String query) throws Throwable {
    Method active = session.getClass().getMethod("withActive", new Class[] {Function0.class});
    Object found = Sources.made(active, session, new Object[] {new Analysis(session, query)});
    if (found instanceof Throwable) {
      throw (Throwable) found;
    }
    return (LogicalPlan) found;
  }

  /**
   * As JSON: its session, whether it is a query, whether replacing relations is all that it needs, whether it is a
   * statement of Delta's that changes rows, and, if it reads anything, its relations. With `uncached`, what Spark has
   * cached stays unchanged.
   */
  public String described(boolean uncached) throws Throwable {
    Map found = new LinkedHashMap();
    found.put("session", Sources.call(session, "sessionUUID"));
    found.put("query", Boolean.valueOf(!(plan instanceof Command)));
    found.put("direct", Boolean.valueOf(direct));
    found.put("changes", Boolean.valueOf(target() != null));
    if (source != null) {
      relations = new Relations(uncached ? Caches.used(session, source) : source);
      found.put("reads", relations.descriptions());
    }
    return Json.of(found);
  }

  /** The analyzed plan. */
  public LogicalPlan plan() {
    return plan;
  }

  /** The table that a statement of Delta's changes; null for others. */
  public LogicalPlan target() {
    return Sources.changesDelta(plan) ? (LogicalPlan) Sources.call(plan, "target") : null;
  }

  /** The part of the plan that reads. */
  public LogicalPlan source() {
    return source;
  }

  /** The part that reads, with self-pruning relations: see Rewriter. */
  public LogicalPlan pruned(String chosen, long patience) throws Throwable {
    if (chosen.isEmpty()) {
      return source;
    }
    Shortcuts.into(session);
    return rewriter.prune(source, relations, chosen, patience, session);
  }

  /** The DataFrame of the statement with self-pruning relations; a command runs at once. */
  public Object rows(String chosen, long patience) throws Throwable {
    LogicalPlan pruned = pruned(chosen, patience);
    LogicalPlan whole = pruned == source ? plan : Sources.replace(plan, source, pruned);
    // Analyzing it again, under the current settings, could change its meaning.
    whole.setAnalyzed();
    return rows(session, whole);
  }

  /** The DataFrame of a plan; a command runs at once. */
  public static Object rows(SparkSession session, LogicalPlan plan) throws Throwable {
    // From Spark 4 on, it is in a package of its own.
    boolean classic = session.getClass().getName().indexOf(".classic.") >= 0;
    String name = classic ? "org.apache.spark.sql.classic.Dataset" : "org.apache.spark.sql.Dataset";
    Method[] methods = Statement.class.getClassLoader().loadClass(name).getMethods();
    for (int k = 0; k < methods.length; k++) {
      if (methods[k].getName().equals("ofRows") && methods[k].getParameterTypes().length == 2) {
        return Sources.made(methods[k], null, new Object[] {session, plan});
      }
    }
    throw new NoSuchMethodException("ofRows");
  }
}
