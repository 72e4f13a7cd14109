package pruner.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import pruner.spark.indexes.Settled;
import scala.collection.Iterator;

/**
 * A pruned relation in an optimized plan, with nothing but filters and projections above it: each of its rows that
 * meets the filters is one row of the result.
 */
final class Chain {
  final LogicalPlan top;
  final Scanned scanned;
  private final LogicalPlan leaf;
  private final List filters = new ArrayList();
  private final Map renamed = new HashMap();

  private Chain(LogicalPlan top, Scanned scanned) {
    this.top = top;
    this.scanned = scanned;
    leaf = scanned.leaf;
  }

  /** A plan as a chain; null where it is not one, is settled already, or has parts that may not be about one row. */
  static Chain of(LogicalPlan plan, SparkSession session) {
    Chain chain = over(plan, session);
    boolean settled = chain != null && chain.files() != null && chain.files().isSettled();
    return chain != null && !settled && chain.isAboutRows() ? chain : null;
  }

  /**
   * The chain in a plan that a column comes from, where rows whose column has none of the values required above the
   * plan can be dropped: through filters, projections and joins that only drop and multiply rows. Its own filters are
   * used as far as they are known. Null where there is none.
   */
  static Chain within(LogicalPlan plan, Attribute column, SparkSession session) {
    Chain chain = over(plan, session);
    if (chain != null) {
      return chain.knownFilters() && chain.isOwn(column) ? chain : null;
    }
    boolean passes = plan.outputSet().contains((NamedExpression) column);
    if (!passes) {
      return null;
    }
    if (plan instanceof Project || plan instanceof Filter) {
      return isSure(plan) ? within((LogicalPlan) plan.children().head(), column, session) : null;
    }
    if (plan instanceof Join) {
      Object type = ((Join) plan).joinType();
      boolean drops = type == Inner$.MODULE$ || type == LeftSemi$.MODULE$;
      Chain left = drops ? within(((Join) plan).left(), column, session) : null;
      return left == null && type == Inner$.MODULE$ ? within(((Join) plan).right(), column, session) : left;
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

  /** Keeps the filters that are known; false where a projection is not. */
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

  /** Whether it has no filters. */
  boolean isOfAllRows() {
    return filters.isEmpty();
  }

  /** Its leaf, if it reads files that an index lists; otherwise null. */
  ScannedFiles files() {
    return scanned instanceof ScannedFiles ? (ScannedFiles) scanned : null;
  }

  /** The same without files in which no row meets the conditions, which hold besides the filters; see Scanned. */
  LogicalPlan among(List conditions) throws IOException {
    return over(scanned.among(conditions, filters));
  }

  /** Whether conditions have been applied to the files already. */
  boolean isAmong(List conditions) {
    return scanned.isAmong(conditions, filters);
  }

  /** The same without files that hold none of the first rows in an order, or in any; see Scanned. */
  LogicalPlan first(Map question, Expression column) throws Throwable {
    return over(scanned.first(question, column, filters));
  }

  /** The files that are left, with the planner's answer. */
  Settled settled(Map question) throws IOException {
    return files().settled(question, filters, new ArrayList());
  }

  /** What a plan reads, if it is nothing but filters and projections over a pruned relation; otherwise null. */
  static Scanned scanned(LogicalPlan plan, SparkSession session) {
    LogicalPlan each = plan;
    while (each instanceof Project || each instanceof Filter) {
      each = (LogicalPlan) each.children().head();
    }
    return Scanned.of(each, session);
  }

  private static Chain over(LogicalPlan plan, SparkSession session) {
    Scanned scanned = scanned(plan, session);
    if (scanned == null) {
      return null;
    }
    Chain chain = new Chain(plan, scanned);
    for (LogicalPlan each = plan; each != scanned.leaf; each = (LogicalPlan) each.children().head()) {
      if (each instanceof Filter) {
        split(((Filter) each).condition(), chain.filters);
      }
    }
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
    // Projections first: a filter above a projection uses its names.
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
   * Whether a condition is on columns of the files, none of which is floating-point: for these, file statistics ignore
   * NaN, by which Spark may leave out rows with NaN that would be counted here.
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

  /** The name of a column of the files, if an expression is one; otherwise null. */
  String column(Expression expression) {
    Attribute attribute = attribute(expression);
    return attribute == null ? null : attribute.name();
  }

  /** The column of the files that an expression refers to; otherwise null. */
  Attribute attribute(Expression expression) {
    while (expression instanceof Attribute && renamed.containsKey(((Attribute) expression).exprId())) {
      expression = (Expression) renamed.get(((Attribute) expression).exprId());
    }
    if (!(expression instanceof AttributeReference)) {
      return null;
    }
    AttributeReference attribute = (AttributeReference) expression;
    boolean own = leaf.outputSet().contains((NamedExpression) attribute);
    return own && !attribute.metadata().contains("__metadata_col") ? attribute : null;
  }

  /** The same over another leaf. */
  LogicalPlan over(LogicalPlan other) {
    Map replaced = new IdentityHashMap();
    replaced.put(leaf, other);
    return (LogicalPlan) top.transformUp(new SmallSides.Replaced(replaced));
  }
}
