package pruner.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.collection.Iterator;

/**
 * One pruned relation with nothing but filters and projections above it, of an optimized plan: each row of it that
 * meets the filters is one row of the whole.
 */
final class Chain {
  final LogicalPlan top;
  final LogicalRelation leaf;
  private final List filters = new ArrayList();
  private final Map renamed = new HashMap();

  private Chain(LogicalPlan top, LogicalRelation leaf) {
    this.top = top;
    this.leaf = leaf;
  }

  /** The chain that a plan is; null where it is something else, or holds what is not known to be about one row. */
  static Chain of(LogicalPlan plan) {
    List filters = new ArrayList();
    LogicalPlan each = plan;
    while (each instanceof Project || each instanceof Filter) {
      if (each instanceof Filter) {
        split(((Filter) each).condition(), filters);
      }
      each = (LogicalPlan) each.children().head();
    }
    if (!(each instanceof LogicalRelation) || each.isStreaming()) {
      return null;
    }
    LogicalRelation leaf = (LogicalRelation) each;
    if (!(leaf.relation() instanceof HadoopFsRelation)) {
      return null;
    }
    FileIndex index = ((HadoopFsRelation) leaf.relation()).location();
    if (!(index instanceof Listed) || ((Listed) index).pruning() == null) {
      return null;
    }
    Chain chain = new Chain(plan, leaf);
    chain.filters.addAll(filters);
    return chain.isAboutRows() ? chain : null;
  }

  private static void split(Expression condition, List filters) {
    if (condition instanceof And) {
      split(((And) condition).left(), filters);
      split(((And) condition).right(), filters);
    } else {
      filters.add(condition);
    }
  }

  private boolean isAboutRows() {
    // Projections first: a filter above one of them goes by its names.
    for (LogicalPlan each = top; each != leaf; each = (LogicalPlan) each.children().head()) {
      if (each instanceof Project && !showsRows((Project) each)) {
        return false;
      }
    }
    for (int k = 0; k < filters.size(); k++) {
      Expression filter = (Expression) filters.get(k);
      if (!filter.deterministic()
          || filter.containsPattern(TreePattern.PLAN_EXPRESSION())
          || !isOfLeaf(filter)) {
        return false;
      }
    }
    return true;
  }

  /**
   * Whether a condition is on columns of the files, none of which is a floating-point number: Spark may leave out rows
   * with NaN there, by statistics of the files without it, and such rows would be counted here.
   */
  private boolean isOfLeaf(Expression filter) {
    Iterator each = filter.references().iterator();
    while (each.hasNext()) {
      Attribute attribute = (Attribute) each.next();
      if (renamed.containsKey(attribute.exprId())
          || column(attribute) == null
          || attribute.dataType() instanceof DoubleType
          || attribute.dataType() instanceof FloatType) {
        return false;
      }
    }
    return true;
  }

  private boolean showsRows(Project project) {
    Iterator each = project.projectList().iterator();
    while (each.hasNext()) {
      Expression shown = (Expression) each.next();
      boolean renames = shown instanceof Alias && leaf.outputSet().contains((NamedExpression) shown);
      if (shown instanceof Alias && ((Alias) shown).child() instanceof Attribute) {
        renamed.put(((Alias) shown).exprId(), ((Alias) shown).child());
      }
      if (renames || !shown.deterministic() || shown.containsPattern(TreePattern.PLAN_EXPRESSION())) {
        return false;
      }
    }
    return true;
  }

  /** The name of a column of the files, if an expression is one; null else. */
  String column(Expression expression) {
    while (expression instanceof Attribute && renamed.containsKey(((Attribute) expression).exprId())) {
      expression = (Expression) renamed.get(((Attribute) expression).exprId());
    }
    if (!(expression instanceof AttributeReference)) {
      return null;
    }
    AttributeReference attribute = (AttributeReference) expression;
    boolean own = leaf.outputSet().contains((NamedExpression) attribute);
    return own && !attribute.metadata().contains("__metadata_col") ? attribute.name() : null;
  }

  /** See Pruning; null where that cannot be. */
  SettledFileIndex settled(Map question) throws java.io.IOException {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    $SEQ$ normalized =
        ($SEQ$) DataSourceStrategy$.MODULE$.normalizeExprs(PythonUtils.toSeq(filters), leaf.output());
    scala.collection.Seq columns = leaf.resolve(relation.partitionSchema(), SQLConf.get().resolver());
    // As Spark's strategy for scans of files finds them, which relies on them.
    $SEQ$ partitions =
        ($SEQ$)
            DataSourceStrategy$.MODULE$.getPushedDownFilters(($SEQ$) columns, normalized).toSeq();
    FileIndex index = relation.location();
    Asking asking = new Asking(question, beyond(normalized, AttributeSet$.MODULE$.apply(columns)));
    return ((Listed) index).pruning().settle(index, (Listed) index, partitions, normalized, asking);
  }

  /** What the filters demand beyond those on partitions alone, which the listing has seen to; null for nothing. */
  private static Expression beyond(scala.collection.Seq filters, AttributeSet partitions) {
    List found = new ArrayList();
    Iterator each = filters.iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (filter.references().isEmpty() || !filter.references().subsetOf(partitions)) {
        found.add(filter);
      }
    }
    return found.isEmpty() ? null : Predicates.conjunction(found);
  }

  /** The same over the files of another index. */
  LogicalPlan over(FileIndex index) {
    Map replacements = new IdentityHashMap();
    replacements.put(leaf, Relations.with(leaf, index));
    return (LogicalPlan) top.transformUp(new Leaves(replacements, new ArrayList()));
  }
}
