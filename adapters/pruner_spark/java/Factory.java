package pruner.spark;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.internal.SQLConf;
import pruner.spark.executions.Executions;
import pruner.spark.iceberg.IcebergTables;
import pruner.spark.indexes.Indexes;
import pruner.spark.scans.Asked;
import pruner.spark.scans.Pruning;
import pruner.spark.scans.Slices;
import pruner.spark.statements.Merging;
import pruner.spark.statements.Relations;
import pruner.spark.statements.Rewriter;
import pruner.spark.statements.Sources;
import pruner.spark.statements.Statement;
import pruner.spark.statements.Subqueries;

/** Creates what Python needs of this package, whose class loader is out of reach of Python's names. */
public final class Factory implements Rewriter {
  private final WeakHashMap executions = new WeakHashMap();
  private BiFunction planner;

  /** Sets the planner, in Python, of all file indexes: once, so that Python keeps one object for Java. */
  public void plannedBy(BiFunction planner) {
    this.planner = planner;
  }

  /** A statement, analyzed; it does not run. See Statement. */
  public Statement statement(SparkSession session, String query) throws Throwable {
    return new Statement(this, session, Statement.analyzed(session, query));
  }

  /** A plan that Spark has already analyzed. */
  public Statement analyzed(SparkSession session, LogicalPlan plan) {
    return new Statement(this, session, plan);
  }

  /** The DataFrame of a plan; a command runs at once. */
  public Object rows(SparkSession session, LogicalPlan plan) throws Throwable {
    return Statement.rows(session, plan);
  }

  /** See Relations. */
  public Relations relations(LogicalPlan plan) {
    return new Relations(plan);
  }

  /** See Rewriter. */
  public LogicalPlan prune(
      LogicalPlan plan, Relations relations, String chosen, long patience, SparkSession session)
      throws ReflectiveOperationException {
    SparkContext context = session.sparkContext();
    Map indexes = new HashMap();
    Map options = new HashMap();
    String[] lines = chosen.split("\n");
    for (int k = 0; k < lines.length; k++) {
      String[] parts = lines[k].split("\t");
      int position = Integer.parseInt(parts[0]);
      FileIndex base = relations.index(position);
      Indexes made = base == null ? new IcebergTables() : Indexes.over(base);
      SparkSession reader = base == null ? session : relations.reader(position);
      Pruning pruning =
          new Pruning(planner, parts[1], made.keys(), reader, patience, context, executions(context));
      if (base != null) {
        indexes.put(Integer.valueOf(position), made.pruned(base, pruning));
      }
      Map own = new HashMap();
      made.mark(session, pruning, own);
      if (parts.length > 2) {
        own.put(Relations.APART, parts[1]);
      }
      options.put(Integer.valueOf(position), own);
    }
    return relations.replaced(plan, indexes, options);
  }

  /** See Executions; `patience` is in milliseconds. */
  public String filesRead(SparkContext context, long patience) {
    return executions(context).take(context, patience);
  }

  /** See Pruning; `patience` is in milliseconds. */
  public void told(long patience) throws InterruptedException {
    Pruning.told(patience);
  }

  private synchronized Executions executions(SparkContext context) {
    Executions known = (Executions) executions.get(context);
    if (known == null) {
      known = new Executions();
      context.addSparkListener(known);
      executions.put(context, known);
    }
    return known;
  }

  /** See Slices. */
  public Slices slices(String lines, int count) {
    return new Slices(lines, count);
  }

  /** See Asked. */
  public String settings(SparkSession session) throws IOException {
    return Asked.of(session, null, null, null);
  }

  /** See Sources. */
  public LogicalPlan withSource(LogicalPlan plan, LogicalPlan old, LogicalPlan source) {
    return Sources.replace(plan, old, source);
  }

  /** See Sources. */
  public Merging merging(LogicalPlan plan) {
    return Sources.merging(plan);
  }

  /** See Subqueries. */
  public Subqueries subqueries(LogicalPlan query, SQLConf conf, boolean cached) {
    return new Subqueries(query, conf, cached);
  }
}
