package pruner.spark.iceberg;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pruner.spark.indexes.Prunings;
import pruner.spark.scans.Pruning;
import pruner.spark.statements.Sources;
import scala.Tuple3;
import scala.collection.JavaConverters;

/**
 * Examines each scan before Spark plans it, and plans nothing itself. Where its relation names a pruning, it removes
 * some of the files that Iceberg has planned. That happens here and not while a query is optimized: there, two scans
 * that Iceberg considers equal may still become one, under either of their filters (MergeScalarSubqueries).
 */
public final class IcebergScans extends SparkStrategy {
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final Prunings prunings = new Prunings();

  /** The strategy of a session, which is added to it the first time. */
  public static synchronized IcebergScans of(SparkSession session) {
    Object methods = Sources.call(session, "experimental");
    List all = new ArrayList();
    all.addAll(JavaConverters.seqAsJavaList((scala.collection.Seq) Sources.call(methods, "extraStrategies")));
    Iterator each = all.iterator();
    while (each.hasNext()) {
      Object strategy = each.next();
      if (strategy instanceof IcebergScans) {
        return (IcebergScans) strategy;
      }
    }
    IcebergScans made = new IcebergScans();
    all.add(made);
    ((org.apache.spark.sql.ExperimentalMethods) methods).extraStrategies_$eq(PythonUtils.toSeq(all));
    return made;
  }

  /** See Prunings. */
  public String remember(Pruning pruning) {
    return prunings.remember(pruning);
  }

  public $SEQ$ apply(LogicalPlan plan) {
    if (plan instanceof Project || plan instanceof Filter || plan instanceof DataSourceV2ScanRelation) {
      try {
        look(plan);
      } catch (Throwable error) {
        LOGGER.warn("a scan of an Iceberg table is not pruned: {}", error.toString());
      }
    }
    return PythonUtils.toSeq(new ArrayList());
  }

  private void look(LogicalPlan plan) throws Throwable {
    scala.Option found = PhysicalOperation.unapply(plan);
    Object leaf = found.isDefined() ? ((Tuple3) found.get())._3() : null;
    if (!(leaf instanceof DataSourceV2ScanRelation)) {
      return;
    }
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) leaf;
    Pruning pruning = pruning(relation);
    if (pruning != null) {
      IcebergTasks.prune(relation.scan(), known((scala.collection.Seq) ((Tuple3) found.get())._2()), pruning);
    }
  }

  /** The pruning of a scan; null for a relation that names none, and for one that was forgotten. */
  public Pruning pruning(DataSourceV2ScanRelation relation) {
    String name = relation.relation().options().get(Prunings.OPTION);
    return name == null ? null : prunings.remembered(name);
  }

  /** The filters that are known before the query runs. */
  private static List known(scala.collection.Seq filters) {
    List known = new ArrayList();
    Iterator each = JavaConverters.seqAsJavaList(filters).iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (!filter.containsPattern(TreePattern.PLAN_EXPRESSION())) {
        known.add(filter);
      }
    }
    return known;
  }
}
