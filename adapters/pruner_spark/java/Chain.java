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
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import pruner.spark.indexes.Settleable;
import pruner.spark.indexes.SettledFileIndex;
import pruner.spark.scans.Asking;
import pruner.spark.scans.Predicates;
import pruner.spark.scans.Settled;
import pruner.spark.statements.Leaves;
import pruner.spark.statements.Relations;
import scala.collection.Iterator;

/**
 * One pruned relation with nothing but filters and projections above it, of an optimized plan: each row of it that
 * meets the filters is one row of the whole.
 */
final class Chain {
  private static final long UNKNOWN_FILES = 1_000L;

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
    Chain chain = over(plan);
    boolean open = chain != null && !(chain.index() instanceof SettledFileIndex);
    return open && chain.isAboutRows() ? chain : null;
  }

  /**
   * The chain in a plan that a column comes from, whose rows are all dropped that have another value in it than is
   * asked for above the plan: through filters, projections and joins that only drop and multiply rows. Its own filters
   * serve as far as they are known. Null where there is none.
   */
  static Chain within(LogicalPlan plan, Attribute column) {
    Chain chain = over(plan);
    if (chain != null) {
      return chain.knownFilters() && chain.isOwn(column) ? chain : null;
    }
    boolean passes = plan.outputSet().contains((NamedExpression) column);
    if (!passes) {
      return null;
    }
    if (plan instanceof Project || plan instanceof Filter) {
      return isSure(plan) ? within((LogicalPlan) plan.children().head(), column) : null;
    }
    if (plan instanceof Join) {
      Object type = ((Join) plan).joinType();
      Chain left = type == Inner$.MODULE$ || type == LeftSemi$.MODULE$ ? within(((Join) plan).left(), column) : null;
      return left == null && type == Inner$.MODULE$ ? within(((Join) plan).right(), column) : left;
    }
    return null;
  }

  private static boolean isSure(LogicalPlan plan) {
    Iterator each = plan.expressions().iterator();
    while (each.hasNext()) {
      if (!((Expression) each.next()).deterministic()) {
        return false;
      }
    }
    return true;
  }

  /** Keeps the filters that are known, where the projections are. */
  private boolean knownFilters() {
    for (LogicalPlan each = top; each != leaf; each = (LogicalPlan) each.children().head()) {
      if (!isSure(each) || (each instanceof Project && !showsRows((Project) each))) {
        return false;
      }
    }
    for (int k = filters.size() - 1; k >= 0; k--) {
      Expression filter = (Expression) filters.get(k);
      if (filter.containsPattern(TreePattern.PLAN_EXPRESSION()) || !isOwn(filter)) {
        filters.remove(k);
      }
    }
    return true;
  }

  /** Whether it demands nothing of rows. */
  boolean isOfAllRows() {
    return filters.isEmpty();
  }

  /** The bytes of the files of the relation. */
  long bytes() {
    return index().sizeInBytes();
  }

  /** How many files the relation has; where only a listing would tell, what they would be of a table of some size. */
  long files() {
    FileIndex index = index();
    if (index instanceof SettledFileIndex) {
      return ((SettledFileIndex) index).count();
    }
    return index instanceof InMemoryFileIndex ? ((InMemoryFileIndex) index).allFiles().size() : UNKNOWN_FILES;
  }

  /** Whether the files were settled by all of these conditions already. */
  boolean isSettledBy(List conditions) {
    return index() instanceof SettledFileIndex && ((SettledFileIndex) index()).isSettledBy(conditions);
  }

  private FileIndex index() {
    return ((HadoopFsRelation) leaf.relation()).location();
  }

  private static Chain over(LogicalPlan plan) {
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
    if (!(index instanceof Settleable)) {
      return null;
    }
    Chain chain = new Chain(plan, leaf);
    chain.filters.addAll(filters);
    return chain;
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
      DataType type = ((Attribute) each.next()).dataType();
      if (type instanceof DoubleType || type instanceof FloatType) {
        return false;
      }
    }
    return isOwn(filter);
  }

  private boolean isOwn(Expression filter) {
    Iterator each = filter.references().iterator();
    while (each.hasNext()) {
      Attribute attribute = (Attribute) each.next();
      if (renamed.containsKey(attribute.exprId()) || column(attribute) == null) {
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

  /** The files that are left, see Pruning; `more` are conditions on its columns that hold besides its filters. */
  SettledFileIndex settled(Map question, List more) throws java.io.IOException {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    List all = new ArrayList(filters);
    all.addAll(more);
    $SEQ$ normalized =
        ($SEQ$) DataSourceStrategy$.MODULE$.normalizeExprs(PythonUtils.toSeq(all), leaf.output());
    scala.collection.Seq columns = leaf.resolve(relation.partitionSchema(), SQLConf.get().resolver());
    // As Spark's strategy for scans of files finds them, which relies on them.
    $SEQ$ partitions =
        ($SEQ$)
            DataSourceStrategy$.MODULE$.getPushedDownFilters(($SEQ$) columns, normalized).toSeq();
    Settleable listed = (Settleable) index();
    Asking asking = new Asking(question, beyond(normalized, AttributeSet$.MODULE$.apply(columns)));
    FileIndex base = listed.index();
    Settled files = listed.pruning().settle(base, listed, partitions, normalized, asking);
    SettledFileIndex made = new SettledFileIndex(base, listed.pruning(), files, partitions);
    made.settledBy(more, listed);
    return made;
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
