package pruner.spark.delta;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pruner.spark.indexes.Prunings;
import pruner.spark.scans.Pruning;
import pruner.spark.statements.Relations;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * A rule at the end of a session's optimizer: where a relation names its pruning, the index that Delta has prepared for
 * its scan is wrapped in one that prunes its listing. Delta's own rules have run by then: statistics, counts from the
 * log, conditions on partitions derived from those on other columns. Calls that ask the index about whole tables
 * (`matchingFiles`, such as whether there are deletion vectors) are answered as before.
 */
public final class DeltaScans extends Rule {
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final Prunings prunings = new Prunings();

  /** The rule of a session, which is added to it the first time. */
  public static synchronized DeltaScans of(SparkSession session) {
    scala.collection.Seq rules = session.experimental().extraOptimizations();
    Iterator each = JavaConverters.seqAsJavaList(rules).iterator();
    while (each.hasNext()) {
      Object rule = each.next();
      if (rule instanceof DeltaScans) {
        return (DeltaScans) rule;
      }
    }
    DeltaScans made = new DeltaScans();
    List more = new ArrayList(JavaConverters.seqAsJavaList(rules));
    more.add(made);
    session
        .experimental()
        .extraOptimizations_$eq(JavaConverters.asScalaBuffer(more).toList());
    return made;
  }

  /** See Prunings. */
  public String remember(Pruning pruning) {
    return prunings.remember(pruning);
  }

  public TreeNode apply(TreeNode plan) {
    try {
      return ((LogicalPlan) plan).transformUpWithSubqueries(new Prepared());
    } catch (RuntimeException error) {
      LOGGER.warn("scans of Delta tables are not pruned: {}", error.toString());
      return plan;
    }
  }

  /** Relations that name their pruning and whose scan Delta has prepared. */
  private final class Prepared extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof LogicalRelation)) {
        return false;
      }
      Object relation = ((LogicalRelation) node).relation();
      return relation instanceof HadoopFsRelation
          && ((HadoopFsRelation) relation).options().contains(Prunings.OPTION)
          && ((HadoopFsRelation) relation).location().getClass() == PreparedDeltaFileIndex.class;
    }

    /** Without the option, the leaf differs from the old one, although its index is equal to the one that it wraps. */
    public Object apply(Object node) {
      HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) node).relation();
      Pruning pruning = prunings.remembered(relation.options().apply(Prunings.OPTION));
      if (pruning == null) {
        return node;
      }
      PreparedDeltaFileIndex base = (PreparedDeltaFileIndex) relation.location();
      scala.collection.immutable.Map options =
          (scala.collection.immutable.Map) relation.options().$minus(Prunings.OPTION);
      return Relations.with((LogicalRelation) node, new PrunedDeltaFileIndex(base, pruning), options);
    }
  }
}
